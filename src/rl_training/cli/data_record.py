"""`rl-training data record`: let policies act in an environment, and store their steps."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl_training.cli.parser import Parser, non_negative, positive
from rl_training.cli.policies import Policy, folder_of, parse, source_of, steps_of
from rl_training.errors import ConfigError

if TYPE_CHECKING:
    from rl_training.agent import Agent
    from rl_training.config import TrainConfig
    from rl_training.data.dataset import Dataset
    from rl_training.experiment.recording import Recorded

_POLICIES = """a policy is one of
  random                     uniformly random actions
  scripted                   a controller written by hand, for environments where we have one
  file:my_policy.py:act      your function: one observation in, one action in the environment's own units out
  RUN                        a run (its best checkpoint), one checkpoint, or a saved agent
  RUN,replay                 the steps in the replay buffer of the run's newest checkpoint
with options after commas: share=0.4 (of --steps; equal shares by default), noise=0.5 (probability of a random step instead),
greedy (a trained agent acts without exploration)

  rl-training data record --env Pendulum-v1 --policy scripted,share=0.2 --policy scripted,noise=0.5,share=0.4 \\
      --policy random,share=0.4 --steps 10000 --out pendulum-mixed"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "data record", "Let policies act one after another, and store their steps as a dataset.", epilog=_POLICIES
    )
    parser.add_argument("--env", required=True, metavar="ENV", help="CartPole-v1, file:my_env.py:MyEnv, ...")
    parser.add_argument("--policy", required=True, action="append", metavar="SOURCE", help="who acts; may be given again")
    parser.add_argument("--steps", required=True, type=positive, metavar="N", help="how many steps in all")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder of the dataset; it must not exist")
    parser.add_argument("--seed", type=non_negative, default=0, metavar="S", help="start of all randomness (default: 0)")
    options = parser.parse_args(arguments)
    policies = [parse(text) for text in options.policy]
    steps = steps_of(policies, options.steps)
    from rl_training.config import TrainConfig
    from rl_training.data.formats.native import read_dataset, refuse_existing, write_dataset
    from rl_training.experiment.recording import joined

    refuse_existing(options.out)
    folders = [folder_of(policy) if policy.trained else None for policy in policies]
    # Only the environment of this config is used; PPO is named because it takes every kind of action.
    config = TrainConfig(algo="ppo", env_id=options.env)
    agents, config = _load(policies, folders, config)
    parts, rows = [], []
    for index, (policy, count) in enumerate(zip(policies, steps)):
        recorded = _record(policy, count, config, agents[index], folders[index], options.seed + index)
        parts += recorded
        rows.append(_summary(policy, folders[index], recorded))
    made = made_by("data record", arguments) | {"sources": rows, "seed": options.seed}
    write_dataset(joined(parts, options.env), options.out, made)
    _print(rows, read_dataset(options.out), options.out)
    return 0


def made_by(command: str, arguments: Sequence[str]) -> dict[str, Any]:
    """What every dataset says about how it came about."""
    from datetime import UTC, datetime

    from rl_training.experiment.manifest import versions
    from rl_training.experiment.provenance import mask_secrets

    words = ["rl-training", *command.split(), *mask_secrets(arguments)]
    return {"command": shlex.join(words), "versions": versions(), "date": datetime.now(UTC).isoformat(timespec="seconds")}


def _load(
    policies: Sequence[Policy], folders: Sequence[Path | None], config: TrainConfig
) -> tuple[list[Agent | None], TrainConfig]:
    """The trained agents, once it is known that they act in this environment, and its config with their settings of it."""
    from dataclasses import replace

    from rl_training.cli.evaluate import load
    from rl_training.experiment.envs import spaces_of
    from rl_training.specs import action_spec, obs_spec

    agents = [None if folder is None else load(folder) for folder in folders]
    kwargs = [agent.config.env.kwargs for agent in agents if agent is not None]
    if any(other != kwargs[0] for other in kwargs):
        raise ConfigError(
            f"The agents were trained with different env.kwargs: {', '.join(map(str, kwargs))}.",
            "A dataset is of one environment.", "Record one dataset for each",
        )  # fmt: skip
    if kwargs:
        config = replace(config, env=replace(config.env, kwargs=kwargs[0]))
    observation, action, frames = spaces_of(config, None)
    for policy, agent in zip(policies, agents):
        if agent is not None and (agent.obs_spec, agent.action_spec) != (obs_spec(observation, frames), action_spec(action)):
            raise ConfigError(
                f"--policy {policy.text} was trained on {agent.config.env_id}, whose spaces are not those of {config.env_id}.",
                f"It knows {agent.observation_space} and {agent.action_space}; {config.env_id} has {observation} and {action}.",
                f"Use --env {agent.config.env_id}",
            )
    return agents, config


def _record(
    policy: Policy, steps: int, config: TrainConfig, agent: Agent | None, folder: Path | None, seed: int
) -> list[Recorded]:
    from rl_training.cli.evaluate import home
    from rl_training.experiment.recording import play
    from rl_training.experiment.stored_replay import stored_steps

    if policy.replay:
        assert folder is not None, "a replay is of a trained agent"
        return stored_steps(home(folder), folder, steps)
    return [play(config, source_of(policy, steps, config, agent), seed)]


def _summary(policy: Policy, folder: Path | None, recorded: Sequence[Recorded]) -> dict[str, Any]:
    returns = [total for part in recorded for total in part.returns]
    return {
        "policy": policy.text,
        "checkpoint": None if folder is None else str(folder),
        "steps": sum(part.steps for part in recorded),
        "episodes": len(returns),
        "mean_return": statistics.fmean(returns) if returns else None,
    }


def _print(rows: Sequence[dict[str, Any]], data: Dataset, out: Path) -> None:
    wide = max(len("policy"), *(len(row["policy"]) for row in rows))
    print(f"{'policy':<{wide}}  {'steps':>9}  {'episodes':>8}  {'mean return':>11}")
    for row in rows:
        mean = "-" if row["mean_return"] is None else f"{row['mean_return']:.1f}"
        print(f"{row['policy']:<{wide}}  {row['steps']:>9,}  {row['episodes']:>8,}  {mean:>11}")
    print(f"written  {out}   {len(data):,} steps in {len(data.episode_starts()):,} episodes")
    print(f"  next   rl-training data inspect {shlex.quote(str(out))}")
    print(f"         rl-training train iql {data.env_id} --dataset {shlex.quote(str(out))} --offline-updates 100000")
