"""Pendulum-v1: swing up and hold a pendulum with bounded torque."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium.envs.classic_control.utils import verify_number_and_cast
from numba import njit

from rl_training.envs.native.base import SQUARE, NativeVectorEnv

GRAVITY = 10.0
MAX_SPEED = 8.0
MAX_TORQUE = np.float32(2.0)
SECONDS = 0.05
# Gymnasium multiplies the float32 torque in float32; the rest is float64.
TORQUE_GAIN = np.float32(3.0)
TORQUE_COST = np.float32(0.001)


@njit(cache=True, error_model="numpy")
def _step(actions, state, obs, reward, terminated, truncated, elapsed, limit, two):  # type: ignore[no-untyped-def]
    ended = 0
    for i in range(actions.shape[0]):
        theta, speed = state[i, 0], state[i, 1]
        torque = actions[i, 0]
        if torque > MAX_TORQUE:
            torque = MAX_TORQUE
        elif torque < -MAX_TORQUE:
            torque = -MAX_TORQUE
        angle = (theta + math.pi) % (2 * math.pi) - math.pi
        reward[i] = -(angle**two + 0.1 * speed**two + TORQUE_COST * torque ** np.float32(two))

        speed = speed + (3 * GRAVITY / 2 * math.sin(theta) + TORQUE_GAIN * torque) * SECONDS
        speed = min(max(speed, -MAX_SPEED), MAX_SPEED)
        theta = theta + speed * SECONDS

        state[i, 0], state[i, 1] = theta, speed
        obs[i, 0], obs[i, 1], obs[i, 2] = math.cos(theta), math.sin(theta), speed
        elapsed[i] += 1
        terminated[i] = False
        truncated[i] = elapsed[i] >= limit
        ended += truncated[i]
    return ended


class Pendulum(NativeVectorEnv):
    """State (theta, angular speed), theta 0 upright; reward is minus angle, speed and torque costs."""

    env_id = "Pendulum-v1"
    state_size = 2
    kernel = staticmethod(_step)
    constants = (SQUARE,)

    def initial_state(self, generator: np.random.Generator, options: dict[str, Any] | None) -> np.ndarray:
        bounds = {"x_init": np.pi, "y_init": 1.0, **(options or {})}
        high = np.array([verify_number_and_cast(bounds["x_init"]), verify_number_and_cast(bounds["y_init"])])
        return generator.uniform(-high, high)

    def observe(self, state: np.ndarray) -> np.ndarray:
        theta, speed = state
        return np.array([np.cos(theta), np.sin(theta), speed], np.float32)
