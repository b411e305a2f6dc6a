"""`rl-training eval RUN`: test episodes with a trained agent."""

from __future__ import annotations

import dataclasses
import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

from rl_training import _atomic
from rl_training.cli.parser import Parser, non_negative, positive
from rl_training.errors import ConfigError

if TYPE_CHECKING:
    from rl_training.agent import Agent
    from rl_training.envs.reference_scores import Reference
    from rl_training.runtime.evaluator import Evaluation

SUMMARY = Path("eval", "summary.json")


def run(arguments: list[str]) -> int:
    parser = Parser("eval", "Play test episodes with the best checkpoint of a run, on fresh environments.")
    parser.add_argument("run", metavar="RUN", help="a run directory or its name, one checkpoint, or a saved agent")
    parser.add_argument("--episodes", type=positive, default=20, metavar="N", help="how many (default: 20)")
    parser.add_argument("--seed", type=non_negative, metavar="S", help="seed of the episodes (default: the run's)")
    parser.add_argument("--stochastic", action="store_true", help="act with exploration noise")
    parser.add_argument("--last", action="store_true", help="use the newest checkpoint instead of the best")
    options = parser.parse_args(arguments)
    folder = find(options.run, last=options.last)
    agent, result = evaluate(folder, options.episodes, options.seed, deterministic=not options.stochastic)
    print(f"{agent.config.algo} on {agent.config.env_id}   {folder}")
    print(f"return {result}   min {min(result.returns):.1f}, median {statistics.median(result.returns):.1f}, "
          f"max {max(result.returns):.1f}   seed {agent.config.seed}")  # fmt: skip
    scores = score_reference(agent)
    if scores is not None:
        print(f"normalized score {scores.normalized(result.mean):.1f}   ({scores.note})")
    written = write_summary(folder, agent, result, deterministic=not options.stochastic)
    print(f"written to {written}")
    return 0


def find(name: str, last: bool = False) -> Path:
    """The folder to load for what the user named: for a run its best checkpoint, or the newest with `last`."""
    from rl_training.experiment.checkpointing import CheckpointStore
    from rl_training.experiment.runs import resolve_run

    path = Path(name)
    if (path / "manifest.json").is_file():
        return path
    folder = path if (path / "config.yaml").is_file() else resolve_run(name, Path("runs"))
    store = CheckpointStore(folder)
    best = None if last else store.best()
    found = best if best is not None else store.load_latest().path
    for skipped in store.skipped:
        print(skipped)
    return found


def load(folder: Path) -> Agent:
    """The agent of a checkpoint."""
    import torch

    from rl_training import algorithms
    from rl_training.config import load_config

    config = load_config(home(folder) / "config.yaml", preset=False)
    agent = algorithms.find(config.algo).load(folder)
    torch.set_num_threads(agent.config.runtime.threads)
    return agent


def evaluate(
    folder: Path, episodes: int, seed: int | None = None, *, deterministic: bool = True
) -> tuple[Agent, Evaluation]:
    """The agent of a checkpoint, and how it did."""
    agent = load(folder)
    if seed is not None:
        agent.config = dataclasses.replace(agent.config, seed=seed)
    return agent, agent.evaluate(episodes, deterministic)


def score_reference(agent: Agent) -> Reference | None:
    """The constants for a normalized score of the agent's environment, or of the dataset that it learned from."""
    from rl_training.envs.reference_scores import reference

    data = agent.config.dataset or ""
    return reference(agent.config.env_id) or reference(data if data.startswith("minari:") else Path(data).stem)


def write_summary(checkpoint: Path, agent: Agent, result: Evaluation, *, deterministic: bool) -> Path:
    """Every return with what it takes to get them again, in `eval/summary.json` beside the checkpoints."""
    folder = home(checkpoint)
    summary = {
        "checkpoint": checkpoint.name,
        "algo": agent.config.algo,
        "env_id": agent.config.env_id,
        "seed": agent.config.seed,
        "deterministic": deterministic,
        "episodes": len(result.returns),
        "mean": result.mean,
        "std": result.std,
        "median": statistics.median(result.returns),
        "min": min(result.returns),
        "max": max(result.returns),
        "returns": result.returns,
        "lengths": result.lengths,
    }
    if result.successes is not None:
        summary |= {"success_rate": result.success_rate, "successes": result.successes}
    scores = score_reference(agent)
    if scores is not None:
        summary |= {
            "normalized_score": scores.normalized(result.mean),
            "normalized_by": {"task": scores.task, "random": scores.low, "expert": scores.high, "note": scores.note},
        }
    _atomic.make_dir(folder / SUMMARY.parent)
    _atomic.write_bytes(folder / SUMMARY, (json.dumps(summary, indent=1) + "\n").encode())
    return folder / SUMMARY


def home(checkpoint: Path) -> Path:
    """The run or saved agent that a checkpoint is in."""
    for path in checkpoint.parents:
        if (path / "config.yaml").is_file():
            return path
    raise ConfigError(
        f"{checkpoint} is not inside a run.", "The config.yaml of the run is needed to rebuild the agent."
    )
