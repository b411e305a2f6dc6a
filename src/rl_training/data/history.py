"""The last steps of episodes that are being played, as slices of stored ones are given to what learns from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rl_training.data.batch import Batch, tree_map
from rl_training.specs import ActionSpec, ObsSpec

Array = NDArray[Any]


class History:
    """`rows` episodes side by side: obs, action, to_go, timestep and mask of (rows, context, ...), the newest step last."""

    def __init__(self, obs: ObsSpec, action: ActionSpec, rows: int, context: int, to_go: float) -> None:
        def places(shape: tuple[int, ...], dtype: str) -> Array:
            return np.zeros((rows, context, *shape), dtype)

        self.steps = {
            "obs": obs.build([places(leaf.shape, leaf.dtype) for leaf in obs.leaves]),
            "action": places(action.shape, action.dtype), "to_go": places((), "float32"),
            "timestep": places((), "int64"), "mask": places((), "bool"),
        }  # fmt: skip
        self.first_to_go = to_go
        self.to_go, self.time = np.full(rows, to_go, np.float32), np.zeros(rows, np.int64)

    def see(self, obs: Any) -> Batch:
        """A step begins: what is known of it, and of those before it. Its action is not; zeros stand in its place."""
        zeros = np.zeros_like(self.steps["action"][:, -1])
        new = {"obs": obs, "action": zeros, "to_go": self.to_go, "timestep": self.time, "mask": np.ones(len(zeros), np.bool_)}
        for key, column in self.steps.items():
            for kept, value in zip(*((list(x.values()) if isinstance(x, dict) else [x]) for x in (column, new[key]))):
                kept[:, :-1] = kept[:, 1:].copy()
                kept[:, -1] = value
        return {key: tree_map(lambda a: torch.from_numpy(a.copy()), column) for key, column in self.steps.items()}

    def did(self, action: Array, reward: Array, over: Array) -> None:
        """The step ends with this action and reward; where an episode is over, the next step begins another."""
        self.steps["action"][:, -1] = action
        self.to_go -= reward
        self.time += 1
        self.steps["mask"][over] = False
        self.to_go[over], self.time[over] = self.first_to_go, 0
