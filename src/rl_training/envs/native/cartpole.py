"""CartPole-v1 (Barto, Sutton and Anderson), Euler integration."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium.envs.classic_control.utils import maybe_parse_reset_bounds
from numba import njit

from rl_training.envs.native.base import NativeVectorEnv

GRAVITY = 9.8
POLE_MASS = 0.1
TOTAL_MASS = POLE_MASS + 1.0
POLE_HALF_LENGTH = 0.5
POLE_MASS_LENGTH = POLE_MASS * POLE_HALF_LENGTH
FORCE = 10.0
SECONDS = 0.02
X_LIMIT = 2.4
THETA_LIMIT = 12 * 2 * math.pi / 360


@njit(cache=True, error_model="numpy")
def _step(actions, state, obs, reward, terminated, truncated, elapsed, limit):  # type: ignore[no-untyped-def]
    for i in range(actions.size):
        if actions[i] < 0 or actions[i] > 1:
            return -1
    ended = 0
    for i in range(actions.size):
        x, x_dot, theta, theta_dot = state[i, 0], state[i, 1], state[i, 2], state[i, 3]
        force = FORCE if actions[i] == 1 else -FORCE
        cos_theta = math.cos(theta)
        sin_theta = math.sin(theta)
        push = (force + POLE_MASS_LENGTH * (theta_dot * theta_dot) * sin_theta) / TOTAL_MASS
        theta_acc = (GRAVITY * sin_theta - cos_theta * push) / (
            POLE_HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * (cos_theta * cos_theta) / TOTAL_MASS)
        )
        x_acc = push - POLE_MASS_LENGTH * theta_acc * cos_theta / TOTAL_MASS
        x = x + SECONDS * x_dot
        x_dot = x_dot + SECONDS * x_acc
        theta = theta + SECONDS * theta_dot
        theta_dot = theta_dot + SECONDS * theta_acc

        state[i, 0], state[i, 1], state[i, 2], state[i, 3] = x, x_dot, theta, theta_dot
        obs[i, 0], obs[i, 1], obs[i, 2], obs[i, 3] = x, x_dot, theta, theta_dot
        reward[i] = 1.0  # also on the step that ends the episode
        elapsed[i] += 1
        terminated[i] = x < -X_LIMIT or x > X_LIMIT or theta < -THETA_LIMIT or theta > THETA_LIMIT
        truncated[i] = elapsed[i] >= limit
        ended += terminated[i] or truncated[i]
    return ended


class CartPole(NativeVectorEnv):
    """Balance a pole on a cart: state (x, x_dot, theta, theta_dot), reward 1 for every step."""

    env_id = "CartPole-v1"
    state_size = 4
    kernel = staticmethod(_step)

    def initial_state(self, generator: np.random.Generator, options: dict[str, Any] | None) -> np.ndarray:
        low, high = maybe_parse_reset_bounds(options, -0.05, 0.05)
        return generator.uniform(low, high, 4)
