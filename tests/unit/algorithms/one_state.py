"""A world with one state, reward 1 at every step and episodes of 10 steps: what a rule takes its value to be tells whether it
goes on after a time limit (gamma 0.9: value 10) or takes it for an end (1 / (1 - 0.9 * 0.9) = 5.263, as 9 of 10 steps go on)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from rl_training.algorithms import find

LENGTH = 10


class OneState(gym.Env[Any, Any]):
    """`ends`: the tenth step is an end; otherwise it is only the limit of the episode."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, actions: gym.Space[Any], ends: bool) -> None:
        self.action_space, self.ends, self._steps = actions, ends, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._steps = 0
        return np.ones(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        last = self._steps == LENGTH
        return np.ones(1, np.float32), 1.0, last and self.ends, last and not self.ends, {}


def trained(name: str, actions: gym.Space[Any], ends: bool, folder: Path, **settings: Any) -> Any:
    """The learning rule after a run in which a linear critic has time to find the value."""
    torch.set_num_threads(1)
    quiet = {"progress": "quiet", "tensorboard": False, "num_episodes": 0, "checkpoint_every": 0, "output_dir": str(folder)}
    agent = find(name)(
        lambda: OneState(actions, ends), hidden=(), gamma=0.9, learning_rate=0.05, tau=0.3, batch_size=64, learning_starts=200,
        buffer_size=200, total_steps=1000, **quiet, **settings,
    )  # fmt: skip
    return agent.learn().parts.algorithm


def box() -> gym.Space[Any]:
    return gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
