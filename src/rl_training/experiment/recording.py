"""Recording datasets from behaviour of our own: whole steps of an environment, in the order they happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rl_training.agent import TRAINED, Agent
from rl_training.config import TrainConfig
from rl_training.data.batch import Chunk, concatenated, tree_map
from rl_training.data.dataset import Dataset
from rl_training.envs.scripted import Controller
from rl_training.experiment.behaviour import Acts, FunctionActor, NoisyActor
from rl_training.experiment.envs import spaces_of, training_envs
from rl_training.runtime.collector import Collector

if TYPE_CHECKING:
    from rl_training.runtime.acting import Actor


@dataclass(frozen=True)
class Source:
    """One behaviour in a dataset: an agent, a controller (None acts uniformly at random), and how many steps it takes.

    `explore` is whether an agent acts with exploration; `noise` is the probability with which a step is uniformly random.
    """

    agent: Agent | Controller | None
    steps: int
    explore: bool = True
    noise: float = 0.0
    name: str = "policy"


@dataclass(frozen=True)
class Recorded:
    """What one source gave: its steps in order, ending with a cut, and the returns of the episodes it brought to their end."""

    columns: Chunk
    returns: list[float]

    @property
    def steps(self) -> int:
        return len(self.columns["reward"])


def record(config: TrainConfig, sources: Sequence[Source], seed: int) -> Dataset:
    """Let each source act in one environment of `config` for its number of steps; the last step of each is a truncation."""
    return joined([play(config, source, seed + index) for index, source in enumerate(sources)], config.env_id)


def play(config: TrainConfig, source: Source, seed: int) -> Recorded:
    """One source's steps."""
    envs = training_envs(replace(config, env=replace(config.env, num_envs=1)), None)
    space = spaces_of(config, None)[1]
    actor = _actor(source, space)
    if actor is not None and source.noise:
        actor = NoisyActor(actor, source.noise, envs.sample_actions)
    try:
        # Whatever can do what a collector asks of an actor may stand in for one.
        collector = Collector(envs, cast("Actor | None", actor), seed, explore=source.explore)
        collector.steps = TRAINED  # exploration that fades with the steps has faded
        chunk = collector.collect(source.steps)
    finally:
        envs.close()
    columns = {key: tree_map(lambda a: a[:, 0], column) for key, column in chunk.items()}
    columns["action"] = _as_executed(columns["action"], space)
    return Recorded(cut(columns), [episode.total for episode in collector.drain_episodes()])


def cut(columns: Chunk) -> Chunk:
    """End the last episode where it is: the next source starts elsewhere, and nothing may be learned across the seam."""
    columns["truncated"][-1] |= ~columns["terminated"][-1]
    return columns


def joined(parts: Sequence[Recorded], env_id: str) -> Dataset:
    """All parts, one after another."""
    columns = {key: concatenated([part.columns[key] for part in parts]) for key in parts[0].columns}
    return Dataset(**columns, name=f"{env_id} recorded", sha256="", source="recorded", env_id=env_id)


def _actor(source: Source, space: gym.Space[Any]) -> Acts | None:
    if source.agent is None:
        return None
    return source.agent.actor if isinstance(source.agent, Agent) else FunctionActor(source.agent, space, source.name)


def _as_executed(action: NDArray[Any], space: gym.Space[Any]) -> NDArray[Any]:
    """A Gaussian policy may ask for more than the bounds allow; the environment does the nearest, so that is what is stored."""
    if not isinstance(space, gym.spaces.Box):
        return action
    low, high = space.low.ravel(), space.high.ravel()
    bounded = np.isfinite(low) & np.isfinite(high)
    return action.clip(np.where(bounded, np.float32(-1), low), np.where(bounded, np.float32(1), high)).astype(np.float32)
