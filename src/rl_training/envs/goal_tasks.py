"""Two small tasks with goals, for learning from sparse rewards: `rl_training/PointReach-v0` and `rl_training/BitFlip-v0`.

Importing this module registers them with Gymnasium.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray


class PointReach(gym.Env[Any, Any]):
    """A point in the cube [-1, 1]^`dims` is to be moved to a goal and held there. Actions are steps of up to 0.1 per axis.

    The reward is 0 within `radius` of the goal and -1 elsewhere, so nearly every random episode is worth the same. Nothing
    terminates an episode; `is_success` in info says whether the point is at the goal now.
    """

    def __init__(self, dims: int = 3, radius: float = 0.05) -> None:
        place = gym.spaces.Box(-1.0, 1.0, (dims,), np.float32)
        self.observation_space = gym.spaces.Dict({"observation": place, "achieved_goal": place, "desired_goal": place})
        self.action_space = gym.spaces.Box(-1.0, 1.0, (dims,), np.float32)
        self.dims, self.radius = dims, radius
        self._at = self._goal = np.zeros(dims, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._at, self._goal = self.np_random.uniform(-1.0, 1.0, (2, self.dims)).astype(np.float32)
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        moved = self._at + np.float32(0.1) * np.clip(np.asarray(action, np.float32), -1.0, 1.0)
        self._at = np.clip(moved, -1.0, 1.0)
        reward = float(self.compute_reward(self._at, self._goal, {}))
        return self._obs(), reward, False, False, {"is_success": reward == 0.0}

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """0 where the goal is reached, else -1; for one pair of goals or a batch."""
        missed = np.linalg.norm(achieved_goal - desired_goal, axis=-1) > self.radius
        return np.where(missed, np.float32(-1.0), np.float32(0.0))

    def _obs(self) -> dict[str, NDArray[np.float32]]:
        return {"observation": self._at.copy(), "achieved_goal": self._at.copy(), "desired_goal": self._goal.copy()}


class BitFlip(gym.Env[Any, Any]):
    """`bits` random bits are to become the goal's bits; action i flips bit i (Andrychowicz et al. 2017, arXiv:1707.01495).

    The reward is -1 for each step until the goal is reached, which ends the episode with 0; after `bits` steps it is cut
    off. Exploring at random finds one state in 2^`bits`.
    """

    def __init__(self, bits: int = 12) -> None:
        row = gym.spaces.MultiBinary(bits)
        self.observation_space = gym.spaces.Dict({"observation": row, "achieved_goal": row, "desired_goal": row})
        self.action_space = gym.spaces.Discrete(bits)
        self.bits = bits
        self._row = self._goal = np.zeros(bits, np.int8)
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        self._goal = self.np_random.integers(0, 2, self.bits, np.int8)
        self._row = self.np_random.integers(0, 2, self.bits, np.int8)
        while np.array_equal(self._row, self._goal):
            self._row = self.np_random.integers(0, 2, self.bits, np.int8)
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        self._row[action] ^= 1
        reached = bool(self.compute_terminated(self._row, self._goal, {}))
        reward = float(self.compute_reward(self._row, self._goal, {}))
        return self._obs(), reward, reached, not reached and self._steps >= self.bits, {"is_success": reached}

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """0 where the goal is reached, else -1; for one pair of goals or a batch."""
        return np.where(self.compute_terminated(achieved_goal, desired_goal, info), np.float32(0.0), np.float32(-1.0))

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Whether the goal is reached; for one pair of goals or a batch."""
        return (achieved_goal == desired_goal).all(-1)

    def _obs(self) -> dict[str, NDArray[np.int8]]:
        return {"observation": self._row.copy(), "achieved_goal": self._row.copy(), "desired_goal": self._goal.copy()}


gym.register("rl_training/PointReach-v0", f"{__name__}:PointReach", max_episode_steps=50)
gym.register("rl_training/BitFlip-v0", f"{__name__}:BitFlip")
