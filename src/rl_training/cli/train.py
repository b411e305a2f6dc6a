"""`rl-training train ALGO ENV`: one run, every setting on the command line, in a file, or from the preset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rl_training.cli.results import print_result, save_origin
from rl_training.errors import ConfigError

if TYPE_CHECKING:
    from rl_training.config import Resolved
    from rl_training.experiment.results import TrainResult

_USAGE = """usage: rl-training train ALGO ENV [--config FILE] [--SETTING VALUE ...]

Train ALGO on ENV in a new run directory. Ctrl-C saves a checkpoint; rl-training resume RUN goes on from it.

  rl-training train ppo CartPole-v1
  rl-training train sac Pendulum-v1 --seed 3 --total-steps 20000
  rl-training train dqn file:my_env.py:MyEnv --algorithm.learning-rate 1e-3
  rl-training train --config my.yaml

Often used: --seed N  --total-steps N  --num-envs N  --output-dir DIR
            --evaluation.every N  --checkpoint.every N  --dataset FILE  --logging.progress quiet

Every setting, with its type, default and meaning:  rl-training train ALGO --help
Later wins: defaults < defaults of the algorithm < preset of ALGO and ENV < FILE < command line."""


def run(arguments: list[str]) -> int:
    names, flags, file, wants_help = split(arguments)
    if wants_help or not arguments:
        print(_settings(names[0]) if names else _USAGE)
        return 0
    if len(names) < 2 and file is None:
        missing = "environment" if names else "algorithm and environment"
        example = f"{names[0] if names else 'ppo'} CartPole-v1"
        raise ConfigError(
            f"Name the {missing} first, then the settings.", fix=f"Write: rl-training train {example} --seed 3"
        )
    from rl_training.config import from_command_line

    algo, env_id = (*names, None, None)[:2]
    result, seconds = train(from_command_line(algo, env_id, flags, file))
    print_result(result, seconds)
    return 0


def train(resolved: Resolved) -> tuple[TrainResult, float]:
    """One run of a config in a new directory, and the seconds it took."""
    import time

    from rl_training import algorithms
    from rl_training.experiment.manager import Run

    presets = sorted({origin for origin in resolved.origin.values() if origin.startswith("preset ")})
    if resolved.config.logging.progress != "quiet":
        what = f"{resolved.config.algo} on {resolved.config.env_id}"
        print(", ".join(presets) or f"no preset for {what}: defaults of {resolved.config.algo}", flush=True)
    run = Run.create(algorithms.find(resolved.config.algo).from_config(resolved.config))
    save_origin(run.dir, resolved, run.config)
    start = time.monotonic()
    return run.train(), time.monotonic() - start


def split(arguments: list[str]) -> tuple[list[str], list[str], Path | None, bool]:
    """Names, flags for the config, the file of --config, and whether help is wanted."""
    wants_help = any(word in ("-h", "--help") for word in arguments)
    first_flag = next((i for i, word in enumerate(arguments) if word.startswith("-")), len(arguments))
    names, flags = arguments[:first_flag], arguments[first_flag:]
    if len(names) > 2:
        raise ConfigError(
            f"'{names[2]}' is one name too many.", fix="Write: rl-training train ALGO ENV --setting value"
        )
    file = None
    for index, word in enumerate(flags):
        if word == "--config" or word.startswith("--config="):
            given = word.removeprefix("--config").removeprefix("=") or "".join(flags[index + 1 : index + 2])
            if not given:
                raise ConfigError("--config needs a file.", fix="Write: rl-training train --config my.yaml")
            file = Path(given)
            flags = flags[:index] + flags[index + (1 if "=" in word else 2) :]
            break
    return names, flags, file, wants_help


def _settings(algo: str) -> str:
    """Every setting of an algorithm as a help page."""
    from rl_training.algorithms import REGISTRY, find
    from rl_training.config import describe_fields

    find(algo)
    lines = [
        f"usage: rl-training train {algo} ENV [--config FILE] [--SETTING VALUE ...]",
        "",
        f"{REGISTRY[algo].summary}.",
    ]
    section = None
    for key, type_name, default, text in describe_fields(algo):
        own = key.rpartition(".")[0]
        if own != section:
            lines += ["", f"{own or 'run'}:"]
            section = own
        if key not in ("algo", "env_id"):
            lines.append(f"  --{key.replace('_', '-')} {type_name}")
            lines.append(f"      {text}" + (f" (default: {default})" if default else ""))
    return "\n".join(lines)
