"""The vocabulary of experience. A chunk is a dict of (T, N, ...) NumPy arrays; a batch is a dict of (B, ...) torch tensors.

| key         | dtype           | chunk               | batch      | meaning                                                   |
| ----------- | --------------- | ------------------- | ---------- | --------------------------------------------------------- |
| obs         | float32 / uint8 | (T, N, ...)         | (B, ...)   | observation acted on; a dict of arrays for Dict spaces    |
| action      | float32 / int64 | (T, N, ...)         | (B, ...)   | in [-1, 1] when continuous                                |
| reward      | float32         | (T, N)              | (B,)       | n-step sum in replay batches                              |
| terminated  | bool            | (T, N)              |            | the task ended: no bootstrap                              |
| truncated   | bool            | (T, N)              |            | the episode was cut: bootstrap from next_obs              |
| next_obs    | like obs        | (T, N, ...)         | (B, ...)   | true successor, also at episode ends; n steps on in batches |
| valid       | bool            | (T, N), optional    |            | False: a row that an autoreset made up; never learned from |
| discount    | float32         |                     | (B,)       | gamma^m * not terminated: multiplies the bootstrap value  |
| weight      | float32         |                     | (B,)       | importance weight of prioritized sampling, else 1         |
| next_action | float32         |                     | (B, A)     | action stored for the step after the window (on request)  |
| next_action_known | float32   |                     | (B,)       | 0 where the episode ends there, so that there is none     |
| mc_return   | float32         |                     | (B,)       | what the rest of the episode returned; -inf while unknown |
| index       | int64           |                     | (B,)       | storage rows, for priorities                              |
| outputs     | float32         | (T, N, ...) policy  |            | what the policy network gave when it acted (on-policy)    |
| value       | float32         | (T, N) by prepare   | (B,)       | V(obs) under the parameters that collected                |
| next_value  | float32         | (T, N) by prepare   |            | V(next_obs) under the same parameters                     |
| log_prob    | float32         | (T, N) by prepare   | (B,)       | log-probability of action under the same parameters       |
| advantage   | float32         |                     | (B,)       | generalized advantage estimate                            |
| return      | float32         |                     | (B,)       | advantage + value: the value target                       |
| episode_return | float32      |                     | (N,)       | mean return of each environment's whole episodes          |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch

from rl_training.state import Stateful

Chunk: TypeAlias = dict[str, Any]
Batch: TypeAlias = dict[str, Any]
Prepare: TypeAlias = Callable[[Batch], Batch]

BLOCK = 20  # the most updates that are worth running as one


@dataclass(frozen=True)
class Draws:
    """`count` batches in a row that `draw` makes when it is called: inside the updates, where sampling is part of them."""

    draw: Callable[[], Batch]
    count: int


def tree_map(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply to an array, or to every array of a dict observation."""
    return {k: function(v) for k, v in value.items()} if isinstance(value, dict) else function(value)


def concatenated(parts: list[Any]) -> Any:
    """Arrays, or dict observations of arrays, one after another along the first axis."""
    if isinstance(parts[0], dict):
        return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return np.concatenate(parts)


class Buffer(Stateful, Protocol):
    """Decides which batches exist, how many, and in what shape."""

    updates_per_step: float

    def add(self, chunk: Chunk) -> None:
        """Take in (T, N, ...) collected steps."""

    def batches(self, new: int, prepare: Prepare) -> Iterator[Batch | Draws]:
        """Yield what to learn from after `new` more env steps (offline: `new` updates)."""

    def reside(self, device: torch.device) -> None:
        """Keep what is sampled on the learner's device as well, where that is possible."""

    def cut(self) -> None:
        """The episodes that are being collected will not be continued (their envs could not be restored)."""

    def feedback(self, batch: Batch | Draws, out: Batch) -> None:
        """Learn from the result of an update: priorities, early stopping."""
