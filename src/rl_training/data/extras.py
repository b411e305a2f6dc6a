"""What a batch may hold of the steps around a transition: the action that followed, and what the rest of the episode returned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

from rl_training.data.batch import Batch

if TYPE_CHECKING:
    from rl_training.data.storage import Storage

NEXT_ACTION, MC_RETURN = "next_action", "mc_return"
UNKNOWN = -np.inf  # the return of an episode that is still going on
TERMINATED, TRUNCATED, VALID = 1, 2, 3  # columns after that of the reward


@njit(cache=True)
def close_episode(
    rows: NDArray[np.float32],
    returns: NDArray[np.float32],
    envs: int,
    env: int,
    end: int,
    oldest: int,
    reward_at: int,
    gamma: float,
) -> None:
    """Fill in G_t = r_t + gamma G_{t+1} for the episode of `env` whose last step is `end`, in a ring of steps.

    An episode that was cut is taken to go on with its mean reward for ever: the sum up to the cut alone would be too high for
    negative rewards and too low for positive ones. For episodes that fail at every step this is Cal-QL's rule
    (Nakamoto et al. 2023), by which they return r / (1 - gamma).
    """
    steps = len(rows) // envs
    start, count, total = end, 1, rows[end * envs + env, reward_at]
    while start != oldest:
        before = rows[(start - 1) % steps * envs + env]
        if before[reward_at + TERMINATED] or before[reward_at + TRUNCATED] or not before[reward_at + VALID]:
            break
        start, count, total = (start - 1) % steps, count + 1, total + before[reward_at]
    running = 0.0
    if not rows[end * envs + env, reward_at + TERMINATED] and gamma < 1.0:
        running = total / count / (1.0 - gamma)
    t = end
    for _ in range(count):
        running = rows[t * envs + env, reward_at] + gamma * running
        returns[t * envs + env] = running
        t = (t - 1) % steps


@njit(cache=True)
def forget_cut(
    rows: NDArray[np.float32], returns: NDArray[np.float32], envs: int, oldest: int, newest: int, reward_at: int
) -> None:
    """Returns of cut episodes whose first steps have been overwritten are unknown: their mean reward cannot be told any more."""
    steps = len(rows) // envs
    for env in range(envs):
        if returns[oldest * envs + env] == UNKNOWN:
            continue  # forgotten when the first of these steps was overwritten
        end = oldest
        row = rows[end * envs + env]
        while end != newest and not (row[reward_at + TERMINATED] or row[reward_at + TRUNCATED]):
            end = (end + 1) % steps
            row = rows[end * envs + env]
        if row[reward_at + TRUNCATED]:
            for t in range((end - oldest) % steps + 1):
                returns[(oldest + t) % steps * envs + env] = UNKNOWN


class Extras:
    """Keeps and draws them for one `Storage`."""

    def __init__(self, storage: Storage, names: frozenset[str], gamma: float) -> None:
        self.storage, self.names, self.gamma = storage, names, gamma
        self.reward_at = 2 * storage.obs_size + storage.action_size
        self.returns = np.full(len(storage.rows), UNKNOWN, np.float32) if MC_RETURN in names else None

    def written(self, slots: NDArray[np.int64]) -> None:
        """Steps were just written to the storage: episodes that ended with them have a return now."""
        if self.returns is None:
            return
        s = self.storage
        self.returns.reshape(s.steps, s.envs)[slots] = UNKNOWN
        oldest = (s.head - s.filled) % s.steps
        rows = s.rows.reshape(s.steps, s.envs, -1)[slots, :, self.reward_at :]
        for step, env in np.argwhere((rows[..., TERMINATED] != 0) | (rows[..., TRUNCATED] != 0)):
            close_episode(s.rows, self.returns, s.envs, env, slots[step], oldest, self.reward_at, self.gamma)
        if s.written > s.steps:  # so that a ring that is loaded, which knows no more than its rows, has the same
            forget_cut(s.rows, self.returns, s.envs, oldest, (s.head - 1) % s.steps, self.reward_at)

    def refill(self) -> None:
        """The same for all that is stored."""
        s = self.storage
        self.written((s.head - s.filled + np.arange(s.filled)) % s.steps)

    def gather(self, first: NDArray[np.int64], last: NDArray[np.int64]) -> Batch:
        """For windows that start in rows `first` and end in rows `last`."""
        s, out = self.storage, {}
        if NEXT_ACTION in self.names:
            follow = (last + s.envs) % len(s.rows)
            ended = (s.rows[last, self.reward_at + TERMINATED] != 0) | (s.rows[last, self.reward_at + TRUNCATED] != 0)
            known = ~ended & (last // s.envs != (s.head - 1) % s.steps) & (s.rows[follow, self.reward_at + VALID] != 0)
            action = s.rows[follow, s.obs_size : s.obs_size + s.action_size]
            out["next_action"] = torch.from_numpy(action)
            out["next_action_known"] = torch.from_numpy(known.astype(np.float32))
        if self.returns is not None:
            out["mc_return"] = torch.from_numpy(self.returns[first])
        return out
