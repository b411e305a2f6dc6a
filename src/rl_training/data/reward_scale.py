"""Reward scaling by the deviation of the running discounted return, as on-policy methods use it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rl_training.state import Tree


class RewardScaler:
    """Divides rewards by the deviation of each env's running discounted return; no mean is subtracted; clipped to +-10."""

    def __init__(self, num_envs: int, gamma: float) -> None:
        self.gamma = gamma
        self.running = np.zeros(num_envs)
        self.count, self.mean, self.var = 1e-4, 0.0, 1.0

    def scale(
        self, reward: NDArray[np.float32], done: NDArray[np.bool_], valid: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float32]:
        """Take in the valid steps of a (T, N) chunk and return it scaled by the statistics that include it."""
        returns = np.empty(reward.shape)
        for t in range(len(reward)):
            self.running = self.running * self.gamma + reward[t]
            returns[t] = self.running
            self.running[done[t]] = 0.0
        counted = returns if valid is None else returns[valid]
        if not counted.size:
            return reward
        n, mean, var = counted.size, counted.mean(), counted.var()
        delta, total = mean - self.mean, self.count + n
        self.var = (self.var * self.count + var * n + delta**2 * self.count * n / total) / total
        self.mean, self.count = self.mean + delta * n / total, total
        return (reward / np.sqrt(self.var + 1e-8)).clip(-10.0, 10.0).astype(np.float32)

    def state_dict(self) -> dict[str, Tree]:
        return {"running": self.running, "count": float(self.count), "mean": float(self.mean), "var": float(self.var)}

    def load_state_dict(self, state: dict[str, Tree]) -> None:
        self.running = np.array(state["running"])
        self.count, self.mean, self.var = state["count"], state["mean"], state["var"]
