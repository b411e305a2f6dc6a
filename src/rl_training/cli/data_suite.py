"""`rl-training data suite`: our own datasets of several qualities, rebuilt from nothing."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl_training.cli.parser import Parser, non_negative, positive
from rl_training.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from rl_training.config import TrainConfig
    from rl_training.experiment.recording import Recorded
    from rl_training.experiment.suite import Trained

_ABOUT = """Train our own agent (dqn for discrete actions, sac for continuous ones; by its preset) and record four datasets:
  random         uniformly random actions
  medium         the checkpoint nearest to a third of the way from random to expert return
  medium-replay  the replay buffer of the training when medium was reached, whole
  expert         the best checkpoint of the finished training
What exists already and is whole is kept, and a training that was stopped goes on: give the same command again."""
STEPS = 100_000


def run(arguments: list[str]) -> int:
    parser = Parser("data suite", _ABOUT)
    parser.add_argument("name", metavar="NAME", help="an environment of the suite, or all")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder of the suite")
    parser.add_argument("--quality", metavar="Q,Q", help="only these, separated by commas")
    parser.add_argument("--steps", type=positive, default=STEPS, metavar="N", help=f"steps of each dataset (default: {STEPS:,})")
    parser.add_argument("--total-steps", type=positive, metavar="N", help="train for so long (default: the preset's)")
    parser.add_argument("--seed", type=non_negative, default=0, metavar="S", help="start of all randomness (default: 0)")
    parser.add_argument("--device", default="auto", metavar="D", help="where to train: cpu, cuda (default: auto)")
    options = parser.parse_args(arguments)
    from rl_training.experiment.data_card import write_suite
    from rl_training.experiment.suite import ALGORITHMS, QUALITIES, suite_config

    envs = list(ALGORITHMS) if options.name == "all" else [_one_of("environment of the suite", options.name, ALGORITHMS)]
    words = options.quality.split(",") if options.quality else QUALITIES
    qualities = [_one_of("quality", word, QUALITIES) for word in words]
    for env_id in envs:
        config = suite_config(env_id, options.out / "runs", options.seed, options.total_steps, options.device)
        _build(config, options.out / env_id, qualities, options.steps, arguments)
    print(f"written  {write_suite(options.out)}")
    print(f"  next   rl-training data inspect {shlex.quote(str(options.out / envs[0] / qualities[0]))}")
    return 0


def _one_of(what: str, word: str, known: Sequence[str] | dict[str, str]) -> str:
    if word in known:
        return word
    raise ConfigError(f"There is no {what} '{word}'. {did_you_mean(word, known)}".rstrip(), fix=f"Known: {', '.join(known)}")


def _build(config: TrainConfig, folder: Path, qualities: Sequence[str], steps: int, arguments: Sequence[str]) -> None:
    from rl_training.data.formats.native import read_dataset
    from rl_training.experiment.data_card import CARD, write_card
    from rl_training.experiment.suite import behaviour, train

    missing = [quality for quality in qualities if not (folder / quality).exists()]
    trained = train(config) if set(missing) - {"random"} else None
    if trained is not None and not 0.2 < trained.way < 0.5:
        print(f"note     medium is {trained.way:.0%} of the way from random to expert: no checkpoint is nearer to a third")
    for quality in qualities:
        target = folder / quality
        if quality in missing:
            parts = behaviour(config, quality, steps, trained)
            _write(config, quality, parts, trained, target, arguments)
        data = read_dataset(target)  # which compares the hash
        if not (target / CARD).is_file():  # also where a kill came between the data and their card
            write_card(target)
        print(f"{config.env_id:<26} {quality:<14} {len(data):>9,} steps  mean return {data.episode_returns().mean():>10,.1f}  "
              f"{'made' if quality in missing else 'was there'}", flush=True)  # fmt: skip


def _write(
    config: TrainConfig, quality: str, parts: list[Recorded], trained: Trained | None, target: Path, arguments: Sequence[str]
) -> None:
    from rl_training.cli.data_record import made_by
    from rl_training.data.formats.native import write_dataset
    from rl_training.experiment.data_card import returns_of
    from rl_training.experiment.recording import joined
    from rl_training.experiment.suite import scale

    stage = None if trained is None else trained.stage(quality)
    policy, value = "uniformly random actions", None if trained is None else trained.random
    if stage is not None:
        value = stage.mean
        acting = "the steps in the replay buffer of" if quality == "medium-replay" else "acting with exploration:"
        policy = f"{acting} {config.algo} after {stage.step:,} of {config.total_steps:,} env steps"
        if trained is not None and stage == trained.medium:
            policy += f", {trained.way:.0%} of the way from random to expert"
    bounds = scale(config, trained)
    made: dict[str, Any] = made_by("data suite", arguments) | {
        "quality": quality,
        "policy": policy,
        "policy_return": value,
        "checkpoint": None if stage is None else str(stage.checkpoint),
        "returns": returns_of([total for part in parts for total in part.returns], bounds),
        "scale": bounds,
        "seed": config.seed,
    }
    write_dataset(joined(parts, config.env_id), target, made)
