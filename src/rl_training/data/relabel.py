"""Hindsight experience replay (Andrychowicz et al. 2017, arXiv:1707.01495): what was reached is taken for what was wanted.

Goals are replaced when a batch is drawn, so storage holds experience as it happened and one episode serves many goals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

from rl_training.data.batch import Batch
from rl_training.data.storage import Storage
from rl_training.errors import ConfigError

Judge: TypeAlias = Callable[[NDArray[np.float32], NDArray[np.float32]], tuple[NDArray[np.float32], NDArray[np.bool_] | None]]
"""Achieved and desired goals (B, ...) to rewards (B,) and terminations (B,), or None where these do not depend on goals."""

STRATEGIES = ("future", "final", "episode")
ACHIEVED, DESIRED = "achieved_goal", "desired_goal"


@njit(cache=True)
def _ends(row: NDArray[np.float32]) -> bool:
    """Whether the episode does not go on after this row: terminated, truncated, or made up by an autoreset."""
    return row[-3] != 0.0 or row[-2] != 0.0 or row[-1] == 0.0


@njit(cache=True)
def _goal_rows(
    rows: NDArray[np.float32],
    index: NDArray[np.int64],
    envs: int,
    oldest: int,
    newest: int,
    strategy: int,
    fraction: NDArray[np.float64],
) -> NDArray[np.int64]:
    """For each row the row whose achieved goal it gets; an episode still running goes up to the newest step."""
    steps = len(rows) // envs
    out = np.empty(len(index), np.int64)
    for b in range(len(index)):
        first, env = index[b] // envs, index[b] % envs
        last = first
        while last != newest and not _ends(rows[last * envs + env]):
            last = (last + 1) % steps
        if strategy == 1:
            first = last
        elif strategy == 2:
            while first != oldest and not _ends(rows[(first - 1) % steps * envs + env]):
                first = (first - 1) % steps
        length = (last - first) % steps + 1
        out[b] = (first + min(int(fraction[b] * length), length - 1)) % steps * envs + env
    return out


class Relabel:
    """Gives the first `ratio` of a batch goals that were achieved in the same episode, and the rewards that go with them.

    future: at the row itself or later, uniformly; final: at the end; episode: anywhere in it. Rows are drawn uniformly, so
    the first ones are as good as any. `judge` is the environment's own, set before the first batch.
    """

    def __init__(self, storage: Storage, strategy: str, ratio: float, gamma: float) -> None:
        self.storage, self.strategy, self.ratio, self.gamma = storage, strategy, ratio, gamma
        self.judge: Judge | None = None
        shapes = {leaf.key: leaf.shape for leaf in storage.vector_leaves if leaf.key in (ACHIEVED, DESIRED)}
        if len(shapes) < 2 or shapes[ACHIEVED] != shapes[DESIRED]:
            raise ConfigError(
                f"relabel = {strategy} needs observations with '{ACHIEVED}' and '{DESIRED}', arrays of one shape.",
                f"These have {', '.join(repr(leaf.key) for leaf in storage.obs.leaves) if storage.obs.is_dict else 'no parts'}.",
                "Leave out algorithm.relabel, or give the environment the form of gymnasium_robotics.core.GoalEnv",
            )
        self._shape = shapes[DESIRED]
        keys = [leaf.key for leaf in storage.vector_leaves]
        before = sum(leaf.size for leaf in storage.vector_leaves[: keys.index(ACHIEVED)])
        start = storage.obs_size + storage.action_size + before  # what a step achieved is part of its successor
        self._achieved = slice(start, start + math.prod(self._shape))

    def __call__(self, batch: Batch, index: NDArray[np.int64], rng: np.random.Generator) -> Batch:
        """Relabel a batch of single steps gathered from these rows, in place."""
        assert self.judge is not None, "rewards are the environment's to give"
        s, count = self.storage, round(self.ratio * len(index))
        oldest, newest = (s.head if s.filled == s.steps else 0), (s.head - 1) % s.steps
        strategy = STRATEGIES.index(self.strategy)
        chosen = _goal_rows(s.rows, index[:count], s.envs, oldest, newest, strategy, rng.random(count))
        goal = s.rows[chosen, self._achieved].reshape(count, *self._shape)
        achieved = batch["next_obs"][ACHIEVED][:count].numpy()
        reward, terminated = self.judge(achieved, goal)
        for part in ("obs", "next_obs"):
            batch[part][DESIRED][:count] = torch.from_numpy(goal)
        batch["reward"][:count] = torch.from_numpy(reward)
        if terminated is not None:
            batch["discount"][:count] = torch.from_numpy(np.where(terminated, np.float32(0), np.float32(self.gamma)))
        return batch
