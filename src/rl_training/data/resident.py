"""A replay's rows on the learner's device, so that drawing a batch is part of the (captured) update and nothing crosses the bus.

The host's `Storage` stays the truth that checkpoints hold; this is a mirror of it, made anew when a run is opened.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rl_training.data.batch import Batch
from rl_training.data.extras import NEXT_ACTION
from rl_training.data.storage import Storage


class ResidentRows:
    """Draws uniform batches of `storage` on a device. Calling it uses tensors alone, so that a CUDA graph can hold it."""

    def __init__(self, storage: Storage, device: torch.device, batch_size: int, n_step: int, gamma: float) -> None:
        self.storage, self.batch_size, self.n_step, self.gamma = storage, batch_size, n_step, gamma
        self.rows = torch.zeros(storage.rows.shape, device=device)
        self.rows[: len(storage)].copy_(torch.from_numpy(storage.rows[: len(storage)]))
        self.weight = torch.ones(batch_size, device=device)
        # float64: a float32 fraction has 2^24 values, too few to draw evenly from a million rows.
        self.count = torch.tensor(float(len(storage)), dtype=torch.float64, device=device)
        self.newest = torch.tensor((storage.head - 1) % storage.steps, device=device)
        returns = storage.extras.returns if storage.extras is not None else None
        self.returns = None if returns is None else torch.from_numpy(returns).to(device)

    def refresh(self, rows: NDArray[np.int64]) -> None:
        """Take over rows that were just written to the storage, in the order they were."""
        start, stop = int(rows[0]), int(rows[-1]) + 1
        for part in [slice(start, stop)] if start < stop else [slice(start, None), slice(0, stop)]:
            self.rows[part].copy_(torch.from_numpy(self.storage.rows[part]), non_blocking=True)
        self.count.fill_(len(self.storage))
        self.newest.fill_((self.storage.head - 1) % self.storage.steps)

    def __call__(self) -> Batch:
        """A new batch, drawn with torch's own generator of the device."""
        fraction = torch.rand(self.batch_size, dtype=torch.float64, device=self.rows.device)
        return self.gather((fraction * self.count).long()) | {"weight": self.weight}

    def gather(self, index: Tensor) -> Batch:
        """The transitions that start in these rows; what `Storage.gather` gives, without leaving the device."""
        start, first = index, self.rows[index]
        last = first
        reward, scale = first[:, -4], torch.full_like(first[:, -4], self.gamma)
        for _ in range(1, self.n_step):
            time, env = index // self.storage.envs, index % self.storage.envs
            # A window stops where its episode does, or at the newest stored step.
            going = (last[:, -3] == 0) & (last[:, -2] == 0) & (time != self.newest)
            index = torch.where(going, (time + 1) % self.storage.steps * self.storage.envs + env, index)
            last = self.rows[index]
            reward = torch.where(going, reward + scale * last[:, -4], reward)
            scale = torch.where(going, scale * self.gamma, scale)
        s, a, action = self.storage.obs_size, self.storage.action_size, self.storage.action
        taken = first[:, s : s + a]
        return {
            "obs": self._observation(first, 0),
            "action": (taken.long() if action.dtype == "int64" else taken).reshape(-1, *action.shape),
            "next_obs": self._observation(last, s + a),
            "reward": reward,
            "discount": torch.where(last[:, -3] == 0, scale, 0.0),
        } | self._extras(start, index)

    def _extras(self, start: Tensor, end: Tensor) -> Batch:
        """What `Extras.gather` gives for windows from rows `start` to rows `end`."""
        extras: Batch = {}
        if self.storage.extras is not None and NEXT_ACTION in self.storage.extras.names:
            s, a, envs, last = self.storage.obs_size, self.storage.action_size, self.storage.envs, self.rows[end]
            follow = self.rows[(end + envs) % len(self.rows)]
            going = (last[:, -3] == 0) & (last[:, -2] == 0) & (end // envs != self.newest) & (follow[:, -1] != 0)
            extras = {"next_action": follow[:, s : s + a], "next_action_known": going.float()}
        return extras if self.returns is None else extras | {"mc_return": self.returns[start]}

    def _observation(self, rows: Tensor, start: int) -> Any:
        leaves = []
        for leaf in self.storage.obs.leaves:
            leaves.append(rows[:, start : start + leaf.size].reshape(-1, *leaf.shape))
            start += leaf.size
        return self.storage.obs.build(leaves)
