"""Offline: slices of stored episodes, for what learns from several steps at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rl_training.data.batch import Batch, Chunk, Draws, Prepare, tree_map
from rl_training.data.dataset import Dataset
from rl_training.state import Tree

Array = NDArray[Any]


def returns_to_go(reward: Array, starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """What each step and the rest of its episode returned, undiscounted; `starts` are the first rows of the episodes."""
    total = np.concatenate([[0.0], reward.astype(np.float64).cumsum()])
    ends = np.append(starts[1:], len(reward))
    after = np.repeat(total[ends], ends - starts)
    return after - total[:-1]


def padded(columns: Batch, first: NDArray[np.int64], length: NDArray[np.int64], context: int) -> Batch:
    """Rows first .. first + length - 1 at the end of `context` places, zeros before them, and a mask of which are which."""
    offset = np.arange(context) - (context - length)[:, None]
    known = offset >= 0
    rows = first[:, None] + offset.clip(0)

    def slices(column: Array) -> torch.Tensor:
        taken = column[rows]
        taken[~known] = 0
        return torch.from_numpy(taken)

    return {key: tree_map(slices, column) for key, column in columns.items()} | {"mask": torch.from_numpy(known)}


class SequenceBuffer:
    """Batches of slices with up to `context` steps: obs, action, to_go (over `scale`), timestep, mask; (B, context, ...).

    A slice begins at any row, all alike: so episodes are drawn in proportion to their lengths. Only the generator is state.
    """

    def __init__(self, dataset: Dataset, *, batch_size: int, context: int, scale: float, seed: int = 0) -> None:
        starts = dataset.episode_starts()
        ends = np.append(starts[1:], len(dataset))
        self.end = np.repeat(ends, ends - starts)
        self.columns = {
            "obs": dataset.obs, "action": dataset.action,
            "to_go": (returns_to_go(dataset.reward, starts) / scale).astype(np.float32),
            "timestep": np.arange(len(dataset)) - np.repeat(starts, ends - starts),
        }  # fmt: skip
        self.batch_size, self.context = batch_size, context
        self.updates_per_step = 1.0
        self.rng = np.random.default_rng(seed)

    def add(self, chunk: Chunk) -> None:
        raise TypeError("a dataset cannot grow")

    def reside(self, device: torch.device) -> None:
        """Slices are made on the host."""

    def batches(self, new: int, prepare: Prepare) -> Iterator[Batch | Draws]:
        for _ in range(new):
            yield self.gather(self.rng.integers(len(self.end), size=self.batch_size))

    def gather(self, first: NDArray[np.int64]) -> Batch:
        """The slices that begin in these rows."""
        return padded(self.columns, first, np.minimum(self.context, self.end[first] - first), self.context)

    def feedback(self, batch: Batch | Draws, out: Batch) -> None:
        """Uniform sampling learns nothing from results."""

    def cut(self) -> None:
        """Stored episodes are whole."""

    def state_dict(self) -> dict[str, Tree]:
        return {"rng": self.rng.bit_generator.state}

    def load_state_dict(self, state: dict[str, Tree]) -> None:
        self.rng.bit_generator.state = state["rng"]
