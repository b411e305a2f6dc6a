"""Of a rollout only what its whole episodes returned, for methods that compare policies instead of steps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

from rl_training.data.batch import Batch, Chunk, Draws, Prepare
from rl_training.state import Tree


@njit(cache=True)
def whole_returns(reward: NDArray[np.float32], done: NDArray[np.bool_], fresh: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Mean return per env (N,) of the episodes that began and ended within (T, N) steps.

    Unless an env is `fresh`, its steps up to the first end belong to an episode that began before. Where no episode was whole,
    what the newest has returned so far counts.
    """
    steps, envs = reward.shape
    out = np.empty(envs, np.float32)
    for n in range(envs):
        total, ended, running, began = 0.0, 0, 0.0, fresh[n]
        for t in range(steps):
            running += reward[t, n]
            if done[t, n]:
                if began:
                    total += running
                    ended += 1
                began, running = True, 0.0
        out[n] = total / ended if ended else running
    return out


class EpisodeBuffer:
    """One batch per rollout, {"episode_return": (N,)}. What is kept is which envs begin the next one with a new episode."""

    def __init__(self, num_steps: int, num_envs: int) -> None:
        self.updates_per_step = 1 / (num_steps * num_envs)
        self.returns = np.zeros(num_envs, np.float32)
        self.fresh = np.ones(num_envs, np.bool_)

    def add(self, chunk: Chunk) -> None:
        done = chunk["terminated"] | chunk["truncated"]
        self.returns = whole_returns(chunk["reward"], done, self.fresh)
        self.fresh = done[-1].copy()

    def batches(self, new: int, prepare: Prepare) -> Iterator[Batch | Draws]:
        yield {"episode_return": torch.from_numpy(self.returns)}

    def reside(self, device: torch.device) -> None:
        """A handful of numbers moves with its batch."""

    def feedback(self, batch: Batch | Draws, out: Batch) -> None:
        """There is nothing to learn from a result."""

    def cut(self) -> None:
        """Every env begins a new episode."""
        self.fresh[:] = True

    def state_dict(self) -> dict[str, Tree]:
        return {"returns": self.returns, "fresh": self.fresh}

    def load_state_dict(self, state: dict[str, Tree]) -> None:
        self.returns, self.fresh = np.array(state["returns"]), np.array(state["fresh"])
