"""Stored transitions with targets that all of them give together: returns and advantages under the values of the moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rl_training.data.batch import Batch, Draws, Prepare, tree_map
from rl_training.data.chunked import chunked
from rl_training.data.dataset import Dataset
from rl_training.data.dataset_buffer import DatasetBuffer
from rl_training.data.gae import gae
from rl_training.data.resident import ResidentRows
from rl_training.data.storage import Storage
from rl_training.specs import ActionSpec, ObsSpec
from rl_training.state import Tree

BLOCK = 4096  # rows that are valued at once; few enough that images and what networks make of them fit
Labels = dict[str, NDArray[np.float32]]


class LabelledRows(ResidentRows):
    """Rows on a device with their labels beside them."""

    def __init__(
        self, storage: Storage, device: torch.device, batch_size: int, n_step: int, gamma: float, labels: Labels
    ) -> None:
        super().__init__(storage, device, batch_size, n_step, gamma)
        self.labels = {name: torch.tensor(column, device=device) for name, column in labels.items()}

    def relabel(self, labels: Labels) -> None:
        """In place: a captured update goes on reading the same memory."""
        for name, column in labels.items():
            self.labels[name].copy_(torch.from_numpy(column))

    def gather(self, index: Tensor) -> Batch:
        return super().gather(index) | {name: column[index] for name, column in self.labels.items()}


class LabelledBuffer(DatasetBuffer):
    """Batches with "return" (the value target, by TD(lambda)) and "advantage" (return - value) of every row.

    Updates come in a cycle of `parts`, given by their lengths; whenever one begins, all rows are labelled anew. `standardize`:
    advantages have mean 0 and deviation 1 over all rows. `stored` is what a `DatasetBuffer` takes besides.
    """

    def __init__(
        self,
        dataset: Dataset,
        obs: ObsSpec,
        action: ActionSpec,
        *,
        parts: Sequence[int],
        lam: float,
        standardize: bool = False,
        **stored: Any,
    ) -> None:
        super().__init__(dataset, obs, action, **stored)
        self.lam, self.standardize = lam, standardize
        *self.begins, self.cycle = accumulate(parts, initial=0)
        self.labels: Labels = {name: np.zeros(len(self.storage), np.float32) for name in ("return", "advantage")}
        self.given = self.times = 0  # batches given, and how often rows were labelled

    def batches(self, new: int, prepare: Prepare) -> Iterator[Batch | Draws]:
        for _ in range(new):
            if self.given % self.cycle in self.begins:
                self.label(prepare)
            self.given += 1
            yield from super().batches(1, prepare)

    def label(self, prepare: Prepare) -> None:
        """Value all rows in their order and go back through their episodes."""
        count, rows = len(self.storage), self.storage.rows
        reward, terminated, truncated = rows[:count, -4:-3], rows[:count, -3:-2] != 0, rows[:count, -2:-1] != 0
        value, next_value = np.empty((count, 1), np.float32), np.empty((count, 1), np.float32)
        for start in range(0, count, BLOCK):
            block = slice(start, min(start + BLOCK, count))
            batch = self.storage.gather(np.arange(block.start, block.stop), 1, self.gamma)
            rollout = {key: tree_map(lambda x: x.unsqueeze(1), batch[key]) for key in ("obs", "action", "reward", "next_obs")}
            ends = {"terminated": torch.from_numpy(terminated[block]), "truncated": torch.from_numpy(truncated[block])}
            prepared = prepare(rollout | ends)
            value[block], next_value[block] = (prepared[key].cpu().numpy() for key in ("value", "next_value"))
        advantage = gae(np.ascontiguousarray(reward), value, next_value, terminated, truncated, self.gamma, self.lam)
        returns = advantage + value
        if self.standardize:
            advantage = (advantage - advantage.mean(dtype=np.float64)) / (advantage.std(dtype=np.float64) + 1e-5)
        self.labels = {"return": returns[:, 0], "advantage": advantage[:, 0].astype(np.float32)}
        self.times += 1
        if isinstance(self.resident, LabelledRows):
            self.resident.relabel(self.labels)

    def reside(self, device: torch.device) -> None:
        if self.storage.always_usable and not self.mapped:
            self.resident = LabelledRows(self.storage, device, self.batch_size, self.n_step, self.gamma, self.labels)

    def sample(self, count: int) -> Batch:
        batch = super().sample(count)
        rows = batch["index"].numpy()
        return batch | {name: torch.from_numpy(column[rows]) for name, column in self.labels.items()}

    def state_dict(self) -> dict[str, Tree]:
        """Labels are state: they came from values that have changed since."""
        written = np.array([len(self.storage)])
        labels = {name: chunked(f"labels.{name}", column, written, self.times) for name, column in self.labels.items()}
        return super().state_dict() | {"given": self.given, "times": self.times, "labels": labels}

    def load_state_dict(self, state: dict[str, Tree]) -> None:
        super().load_state_dict(state)
        self.given, self.times = state["given"], state["times"]
        for name, column in self.labels.items():
            state["labels"][name].fill(column)
