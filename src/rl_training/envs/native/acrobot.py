"""Acrobot-v1: two links, torque at the joint between them, "book" dynamics, one fourth-order Runge-Kutta step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium.envs.classic_control.utils import maybe_parse_reset_bounds
from numba import njit

from rl_training.envs.native.base import SQUARE, NativeVectorEnv

GRAVITY = 9.8
MASS_1 = MASS_2 = 1.0
LENGTH_1 = 1.0
COM_1 = COM_2 = 0.5  # centre of mass of each link
INERTIA = 1.0
MAX_SPEED_1 = 4 * math.pi
MAX_SPEED_2 = 9 * math.pi
SECONDS = 0.2


@njit(cache=True, error_model="numpy")
def _derivative(theta1, theta2, speed1, speed2, torque, two):  # type: ignore[no-untyped-def]
    cos2, sin2 = math.cos(theta2), math.sin(theta2)
    d1 = MASS_1 * COM_1**2 + MASS_2 * (LENGTH_1**2 + COM_2**2 + 2 * LENGTH_1 * COM_2 * cos2) + INERTIA + INERTIA
    d2 = MASS_2 * (COM_2**2 + LENGTH_1 * COM_2 * cos2) + INERTIA
    phi2 = MASS_2 * COM_2 * GRAVITY * math.cos(theta1 + theta2 - math.pi / 2.0)
    phi1 = (
        -MASS_2 * LENGTH_1 * COM_2 * speed2**two * sin2
        - 2 * MASS_2 * LENGTH_1 * COM_2 * speed2 * speed1 * sin2
        + (MASS_1 * COM_1 + MASS_2 * LENGTH_1) * GRAVITY * math.cos(theta1 - math.pi / 2)
        + phi2
    )
    acc2 = (torque + d2 / d1 * phi1 - MASS_2 * LENGTH_1 * COM_2 * speed1**two * sin2 - phi2) / (
        MASS_2 * COM_2**2 + INERTIA - d2**two / d1
    )
    acc1 = -(d2 * acc2 + phi1) / d1
    return speed1, speed2, acc1, acc2


@njit(cache=True, error_model="numpy")
def _wrap(angle):  # type: ignore[no-untyped-def]
    while angle > math.pi:
        angle = angle - 2 * math.pi
    while angle < -math.pi:
        angle = angle + 2 * math.pi
    return angle


@njit(cache=True, error_model="numpy")
def _step(actions, state, obs, reward, terminated, truncated, elapsed, limit, two):  # type: ignore[no-untyped-def]
    for i in range(actions.size):
        if actions[i] < 0 or actions[i] > 2:
            return -1
    half, sixth = SECONDS / 2.0, SECONDS / 6.0
    ended = 0
    for i in range(actions.size):
        a, b, c, d = state[i, 0], state[i, 1], state[i, 2], state[i, 3]
        torque = actions[i] - 1.0
        a1, b1, c1, d1 = _derivative(a, b, c, d, torque, two)
        a2, b2, c2, d2 = _derivative(a + half * a1, b + half * b1, c + half * c1, d + half * d1, torque, two)
        a3, b3, c3, d3 = _derivative(a + half * a2, b + half * b2, c + half * c2, d + half * d2, torque, two)
        a4, b4, c4, d4 = _derivative(
            a + SECONDS * a3, b + SECONDS * b3, c + SECONDS * c3, d + SECONDS * d3, torque, two
        )
        theta1 = _wrap(a + sixth * (a1 + 2 * a2 + 2 * a3 + a4))
        theta2 = _wrap(b + sixth * (b1 + 2 * b2 + 2 * b3 + b4))
        speed1 = min(max(c + sixth * (c1 + 2 * c2 + 2 * c3 + c4), -MAX_SPEED_1), MAX_SPEED_1)
        speed2 = min(max(d + sixth * (d1 + 2 * d2 + 2 * d3 + d4), -MAX_SPEED_2), MAX_SPEED_2)

        state[i, 0], state[i, 1], state[i, 2], state[i, 3] = theta1, theta2, speed1, speed2
        cos1 = math.cos(theta1)
        obs[i, 0], obs[i, 1] = cos1, math.sin(theta1)
        obs[i, 2], obs[i, 3] = math.cos(theta2), math.sin(theta2)
        obs[i, 4], obs[i, 5] = speed1, speed2
        elapsed[i] += 1
        terminated[i] = -cos1 - math.cos(theta2 + theta1) > 1.0
        truncated[i] = elapsed[i] >= limit
        reward[i] = 0.0 if terminated[i] else -1.0
        ended += terminated[i] or truncated[i]
    return ended


class Acrobot(NativeVectorEnv):
    """Swing the free end above one link length: state (theta1, theta2, speed1, speed2), reward -1 until then."""

    env_id = "Acrobot-v1"
    state_size = 4
    kernel = staticmethod(_step)
    constants = (SQUARE,)

    def initial_state(self, generator: np.random.Generator, options: dict[str, Any] | None) -> np.ndarray:
        low, high = maybe_parse_reset_bounds(options, -0.1, 0.1)
        return generator.uniform(low, high, 4).astype(np.float32)

    def observe(self, state: np.ndarray) -> np.ndarray:
        cosines, sines = np.cos(state[:2]), np.sin(state[:2])
        return np.array([cosines[0], sines[0], cosines[1], sines[1], state[2], state[3]], np.float32)
