"""Of a rollout only what its whole episodes returned, for methods that compare policies instead of steps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

from rl_training.data.batch import Batch, Chunk, Draw, Prepare
from rl_training.state import Tree


@njit(cache=True)
def whole_returns(reward: NDArray[np.float32], done: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Mean return per env (N,) of the episodes that began and ended within (T, N) steps.

    The steps up to the first end belong to an episode that began before. Where no later one ended, what it has returned so far
    counts; without any end, all steps do.
    """
    steps, envs = reward.shape
    out = np.empty(envs, np.float32)
    for n in range(envs):
        total, ended, running, began = 0.0, 0, 0.0, False
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
    """One batch per rollout, {"return": (N,)}; nothing is kept from one rollout to the next."""

    def __init__(self, num_steps: int, num_envs: int) -> None:
        self.updates_per_step = 1 / (num_steps * num_envs)
        self.returns = np.zeros(num_envs, np.float32)

    def add(self, chunk: Chunk) -> None:
        self.returns = whole_returns(chunk["reward"], chunk["terminated"] | chunk["truncated"])

    def batches(self, new: int, prepare: Prepare) -> Iterator[Batch | Draw]:
        yield {"return": torch.from_numpy(self.returns)}

    def reside(self, device: torch.device) -> None:
        """A handful of numbers moves with its batch."""

    def feedback(self, batch: Batch | Draw, out: Batch) -> None:
        """There is nothing to learn from a result."""

    def cut(self) -> None:
        """Nothing is kept."""

    def state_dict(self) -> dict[str, Tree]:
        return {"returns": self.returns}

    def load_state_dict(self, state: dict[str, Tree]) -> None:
        self.returns = np.array(state["returns"])
