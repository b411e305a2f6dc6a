"""Environments that every algorithm learns within seconds: a sign is shown, and its answer is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

LENGTH = 8  # steps per episode; the best answer to each is worth 1
BEST = float(LENGTH)

ACTIONS: dict[str, Callable[[], gym.Space[Any]]] = {
    "discrete": lambda: gym.spaces.Discrete(2),
    "multidiscrete": lambda: gym.spaces.MultiDiscrete([2, 3]),
    "continuous": lambda: gym.spaces.Box(-2.0, 2.0, (1,), np.float32),
}
# Mean return of uniformly random actions.
RANDOM = {"discrete": BEST / 2, "multidiscrete": BEST * (1 / 2 + 1 / 3) / 2, "continuous": BEST * (1 - 0.625)}


class Match(gym.Env[Any, Any]):
    """`actions`: discrete (0 or 1), multidiscrete (0 or 1, and 0 or 2), continuous (-1 or 1 of [-2, 2])."""

    def __init__(self, actions: str, nested: bool = False) -> None:
        self.actions, self.nested = actions, nested
        self.action_space = ACTIONS[actions]()
        sign = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        # One part for each way that observations are turned into numbers.
        parts = {"sign": sign, "left": gym.spaces.Discrete(LENGTH + 1), "table": gym.spaces.Box(-1.0, 1.0, (2, 2), np.float32)}
        self.observation_space = gym.spaces.Dict(parts) if nested else sign
        self._sign, self._steps = 1, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._show(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward, self._steps = self._worth(action), self._steps + 1
        return self._show(), reward, False, self._steps >= LENGTH, {}

    def _worth(self, action: Any) -> float:
        up = self._sign > 0
        if self.actions == "discrete":
            return float(action == up)
        if self.actions == "multidiscrete":
            return (float(action[0] == up) + float(action[1] == 2 * up)) / 2
        return 1.0 - abs(float(action[0]) - self._sign) / 2

    def _show(self) -> Any:
        self._sign = int(2 * self.np_random.integers(2) - 1)
        sign = np.array([self._sign], np.float32)
        if not self.nested:
            return sign
        return {"sign": sign, "left": np.int64(LENGTH - self._steps), "table": np.zeros((2, 2), np.float32)}
