"""Our own data suite: agents trained here, and what they give at several stages of their training."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl_training import algorithms
from rl_training.config import TrainConfig, find_preset, load_config
from rl_training.envs.reference_scores import reference
from rl_training.errors import CheckpointError, ConfigError
from rl_training.experiment.envs import time_limit
from rl_training.experiment.manager import Run
from rl_training.experiment.recording import Recorded, Source, play
from rl_training.experiment.retention import list_checkpoints, short_name
from rl_training.experiment.runs import read_run_info, slug
from rl_training.experiment.stored_replay import stored_steps
from rl_training.runtime.rng import derive

ALGORITHMS = {
    "Pendulum-v1": "sac",
    "CartPole-v1": "dqn",
    "LunarLander-v3": "dqn",
    "LunarLanderContinuous-v3": "sac",
    "HalfCheetah-v5": "sac",
    "Hopper-v5": "sac",
    "Walker2d-v5": "sac",
}
QUALITIES = ("random", "medium", "medium-replay", "expert")
SAVES = 200  # checkpoints of a training to choose from
EVALUATED = 5  # one of so many is evaluated while training
CLOSEST = 16  # env steps between checkpoints, at least
RANDOM_EPISODES = 10  # at least, to know what random actions return
KEEP_ALL = 10_000


@dataclass(frozen=True)
class Stage:
    """An evaluated checkpoint."""

    checkpoint: Path
    step: int
    mean: float


@dataclass(frozen=True)
class Trained:
    """A finished training: its best checkpoint, one on the way there, and what random actions return."""

    run: Path
    random: float
    expert: Stage
    medium: Stage

    def stage(self, quality: str) -> Stage | None:
        """Whose data these are; None for random ones."""
        return {"random": None, "expert": self.expert}.get(quality, self.medium)

    @property
    def way(self) -> float:
        """How far medium has come from random to expert."""
        return (self.medium.mean - self.random) / (self.expert.mean - self.random or 1.0)


def suite_config(env_id: str, root: Path, seed: int, total_steps: int | None, device: str) -> TrainConfig:
    """The preset of the suite's algorithm for this environment, with evaluations and checkpoints all along."""
    algo = ALGORITHMS[env_id]
    preset = find_preset(algo, env_id)
    assert preset is not None, f"no preset for {algo} on {env_id}"
    given: dict[str, Any] = {"seed": seed, "output_dir": str(root), "tensorboard": False, "device": device}
    given |= {} if total_steps is None else {"total_steps": total_steps}
    every = max(CLOSEST, load_config(preset, given).total_steps // SAVES)
    often = {"checkpoint_every": every, "eval_every": EVALUATED * every, "checkpoint.keep": KEEP_ALL}
    return load_config(preset, given | often)


def train(config: TrainConfig) -> Trained:
    """Train, or go on where an earlier call was stopped, or take what has finished."""
    run = _begun(config)
    if run is None:
        run = algorithms.find(config.algo).from_config(config).learn().result.run_dir  # type: ignore[union-attr]
    elif read_run_info(run).get("status") != "finished":
        Run.resume(run, None, None, {}).train()
    random, stages = random_return(config), _stages(run)
    expert = max(stages, key=lambda stage: stage.mean)
    target = random + (expert.mean - random) / 3
    # Agents may learn most of what they learn between two evaluations, so those in between are evaluated there.
    low, high = crossing(stages, target)
    kind = algorithms.find(config.algo)
    between = [(path, step) for path, step in _saved(run) if low < step < high]
    stages += [Stage(path, step, kind.load(path).evaluate(config.evaluation.num_episodes).mean) for path, step in between]
    return Trained(run, random, expert, nearest(stages, target, expert.step))


def crossing(stages: Sequence[Stage], target: float) -> tuple[int, int]:
    """The steps between which the return first gets to the target; the last two where it never does."""
    above = next((index for index, stage in enumerate(stages) if stage.mean >= target), len(stages) - 1)
    return (stages[above - 1].step if above else 0), stages[above].step


def nearest(stages: Sequence[Stage], target: float, last: int) -> Stage:
    """The stage whose return is nearest to the target, among those up to a step."""
    return min((stage for stage in stages if stage.step <= last), key=lambda stage: (abs(stage.mean - target), stage.step))


def random_return(config: TrainConfig) -> float:
    """The mean over whole episodes of random actions."""
    steps = RANDOM_EPISODES * time_limit(config)
    return statistics.fmean(play(config, Source(None, steps), derive(config.seed, "suite", "random return")).returns)


def behaviour(config: TrainConfig, quality: str, steps: int, trained: Trained | None) -> list[Recorded]:
    """The steps of one dataset. A replay is taken whole, as it was when medium was reached."""
    seed = derive(config.seed, "suite", quality)
    stage = None if trained is None else trained.stage(quality)
    if stage is None:
        return [play(config, Source(None, steps), seed)]
    if quality == "medium-replay":
        assert trained is not None, "a replay is of a training"
        return stored_steps(trained.run, stage.checkpoint)
    agent = algorithms.find(config.algo).load(stage.checkpoint)
    return [play(config, Source(agent, steps), seed)]


def scale(config: TrainConfig, trained: Trained | None) -> dict[str, Any] | None:
    """The returns that count as 0 and 100: D4RL's where it has the task, else those of random actions and of our expert."""
    found = reference(config.env_id)
    if found is not None:
        return {"random": found.low, "expert": found.high, "note": found.note}
    if trained is None:
        return None
    return {"random": trained.random, "expert": trained.expert.mean, "note": "random actions and the expert of this suite"}


def _begun(config: TrainConfig) -> Path | None:
    """The newest run of this config that has a checkpoint."""
    name = f"{slug(config.algo)}__{slug(config.env_id)}__seed{config.seed}__*"
    runs = [run for run in sorted(Path(config.output_dir).glob(name)) if list_checkpoints(run / "checkpoints")]
    if not runs:
        return None
    begun = load_config(runs[-1] / "config.yaml", preset=False).total_steps
    if begun != config.total_steps:
        raise ConfigError(
            f"{runs[-1]} is a training of {begun:,} steps, not of {config.total_steps:,}.",
            "Datasets of two trainings in one suite would not belong together.",
            f"Add --total-steps {begun}, or choose another --out",
        )
    return runs[-1]


def _stages(run: Path) -> list[Stage]:
    rows = map(json.loads, (run / "evaluations.jsonl").read_text().splitlines())
    means = {row["step"]: row["mean"] for row in rows}
    stages = [Stage(path, step, means[step]) for path, step in _saved(run) if step in means]
    if not stages:
        raise CheckpointError(f"{run} has no evaluated checkpoint.", fix="Remove it and start again")
    return stages


def _saved(run: Path) -> list[tuple[Path, int]]:
    return [(path, int(short_name(path).removeprefix("step_"))) for path in list_checkpoints(run / "checkpoints")]
