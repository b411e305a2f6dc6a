"""Recording datasets from policies of our own: whole steps of an environment, in the order they happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rl_training.agent import TRAINED, Agent
from rl_training.config import TrainConfig
from rl_training.data.batch import Chunk
from rl_training.data.dataset import Dataset
from rl_training.experiment.envs import training_envs
from rl_training.runtime.collector import Collector


@dataclass(frozen=True)
class Source:
    """One behaviour in a dataset: an agent (None acts uniformly at random), how many steps, and whether it explores."""

    agent: Agent | None
    steps: int
    explore: bool = True


def record(config: TrainConfig, sources: Sequence[Source], seed: int) -> Dataset:
    """Let each source act in one environment of `config` for its number of steps; the last step of each is a truncation."""
    parts = [_record_one(config, source, seed + index) for index, source in enumerate(sources)]
    columns = {key: np.concatenate([part[key][:, 0] for part in parts]) for key in parts[0]}
    return Dataset(**columns, name=f"{config.env_id} recorded", sha256="", source="recorded", env_id=config.env_id)


def _record_one(config: TrainConfig, source: Source, seed: int) -> Chunk:
    envs = training_envs(replace(config, env=replace(config.env, num_envs=1)), None)
    actor = None if source.agent is None else source.agent.actor
    try:
        collector = Collector(envs, actor, seed, explore=source.explore)
        collector.steps = TRAINED  # exploration that fades with the steps has faded
        chunk = collector.collect(source.steps)
    finally:
        envs.close()
    # The next source starts elsewhere: nothing may be learned across the seam.
    chunk["truncated"][-1] |= ~chunk["terminated"][-1]
    return chunk
