"""Offline to online: each batch joins rows of the replay with rows of the dataset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from rl_training.data.batch import Batch, Chunk, Draws, Prepare
from rl_training.data.dataset_buffer import DatasetBuffer
from rl_training.data.replay_buffer import ReplayBuffer
from rl_training.data.rewards import RewardMap
from rl_training.state import Tree

SAME = RewardMap()


class MixtureBuffer:
    """Learns from the dataset alone until env steps come, then from both.

    `offline_fraction` of each batch is from the dataset; None follows the sizes (as if the dataset had been put into the replay).
    Rows alternate, so that any contiguous slice of a batch is mixed as well. `reward` is the change that was made to the stored
    rewards.
    """

    def __init__(
        self, online: ReplayBuffer, offline: DatasetBuffer, offline_fraction: float | None = None, reward: RewardMap = SAME
    ) -> None:
        self.online, self.offline, self.fraction, self.reward = online, offline, offline_fraction, reward
        self.updates_per_step = online.updates_per_step

    def add(self, chunk: Chunk) -> None:
        self.online.add(chunk | {"reward": self.reward(chunk["reward"])})

    def batches(self, new: int, prepare: Prepare) -> Iterator[Batch | Draws]:
        if not len(self.online.storage):
            yield from self.offline.batches(new, prepare)
            return
        for batch in self.online.batches(new, prepare):
            assert not isinstance(batch, Draws), "rows to mix are drawn on the host"
            yield self._mix(batch)

    def _mix(self, online: Batch) -> Batch:
        size = self.online.batch_size
        stored = len(self.offline.storage)
        fraction = stored / (stored + len(self.online.storage)) if self.fraction is None else self.fraction
        offline = self.offline.sample(size)
        # Row b is offline whenever the running share crosses a whole number: evenly spread, and exact over the batch.
        shares = np.floor(np.arange(size + 1) * fraction + 1e-9)
        from_offline = torch.from_numpy(shares[1:] > shares[:-1])
        return {key: _select(from_offline, offline[key], online[key]) for key in online}

    def reside(self, device: torch.device) -> None:
        """Sample the dataset on `device` while it is alone; batches are mixed on the host."""
        self.offline.reside(device)

    def feedback(self, batch: Batch | Draws, out: Batch) -> None:
        """Mixed batches are drawn uniformly; there are no priorities to keep."""

    def cut(self) -> None:
        self.online.cut()

    def state_dict(self) -> dict[str, Tree]:
        return {"online": self.online.state_dict(), "offline": self.offline.state_dict()}

    def load_state_dict(self, state: dict[str, Tree]) -> None:
        self.online.load_state_dict(state["online"])
        self.offline.load_state_dict(state["offline"])


def _select(mask: torch.Tensor, a: Any, b: Any) -> Any:
    if isinstance(a, dict):
        return {key: _select(mask, a[key], b[key]) for key in a}
    return torch.where(mask.reshape(-1, *[1] * (a.ndim - 1)), a, b)
