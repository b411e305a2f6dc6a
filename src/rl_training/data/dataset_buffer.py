"""Offline: stored transitions that never change, one batch per update."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from rl_training.data.batch import Batch, Chunk, Draws, Prepare
from rl_training.data.dataset import Dataset
from rl_training.data.resident import ResidentRows
from rl_training.data.storage import NO_EXTRAS, Storage
from rl_training.specs import ActionSpec, ObsSpec
from rl_training.state import Tree

BLOCK_ROWS = 65_536  # moved into the storage at a time


class DatasetBuffer:
    """Uniform batches of a dataset, in memory or on disk in the folder `scratch`.

    Only its generator is state: the data itself is named, with its hash, in the run's config.
    """

    def __init__(
        self,
        dataset: Dataset,
        obs: ObsSpec,
        action: ActionSpec,
        *,
        batch_size: int,
        gamma: float,
        n_step: int = 1,
        extras: frozenset[str] = NO_EXTRAS,
        scratch: Path | None = None,
        seed: int = 0,
    ) -> None:
        self.storage = Storage(obs, action, len(dataset), 1, extras, gamma, scratch)
        self.mapped = scratch is not None
        for part in dataset.chunks(BLOCK_ROWS):
            self.storage.add(part)
        self.storage.cut()  # the last row ends its episode, flagged or not
        self.batch_size, self.gamma, self.n_step = batch_size, gamma, n_step
        self.updates_per_step = 1.0
        self.rng = np.random.default_rng(seed)
        self.resident: ResidentRows | None = None

    def add(self, chunk: Chunk) -> None:
        raise TypeError("a dataset cannot grow: fine-tune online through a MixtureBuffer")

    def reside(self, device: torch.device) -> None:
        """Sample on `device` from now on, unless there are images, or rows are on disk because they are too many."""
        if self.storage.always_usable and not self.mapped:
            self.resident = ResidentRows(self.storage, device, self.batch_size, self.n_step, self.gamma)

    def batches(self, new: int, prepare: Prepare) -> Iterator[Batch | Draws]:
        if self.resident is not None:
            yield Draws(self.resident, new)
            return
        for _ in range(new):
            yield self.sample(self.batch_size)

    def sample(self, count: int) -> Batch:
        index = self.storage.draw(count, self.rng)
        return self.storage.gather(index, self.n_step, self.gamma) | {
            "weight": torch.ones(count),
            "index": torch.from_numpy(index),
        }

    def feedback(self, batch: Batch | Draws, out: Batch) -> None:
        """Uniform sampling learns nothing from results."""

    def cut(self) -> None:
        """Stored episodes are whole."""

    def state_dict(self) -> dict[str, Tree]:
        return {"rng": self.rng.bit_generator.state}

    def load_state_dict(self, state: dict[str, Tree]) -> None:
        self.rng.bit_generator.state = state["rng"]
