"""MountainCar-v0 and MountainCarContinuous-v0: rock an underpowered car up a hill."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium.envs.classic_control.utils import maybe_parse_reset_bounds
from numba import njit

from rl_training.envs.native.base import NativeVectorEnv

MIN_POSITION = -1.2
MAX_POSITION = 0.6
MAX_SPEED = 0.07
GRAVITY = 0.0025
FORCE = 0.001
GOAL = 0.5
CONTINUOUS_POWER = 0.0015
CONTINUOUS_GOAL = 0.45


@njit(cache=True, error_model="numpy")
def _step(actions, state, obs, reward, terminated, truncated, elapsed, limit):  # type: ignore[no-untyped-def]
    for i in range(actions.size):
        if actions[i] < 0 or actions[i] > 2:
            return -1
    ended = 0
    for i in range(actions.size):
        position, speed = state[i, 0], state[i, 1]
        speed = speed + ((actions[i] - 1) * FORCE + math.cos(3 * position) * -GRAVITY)
        speed = min(max(speed, -MAX_SPEED), MAX_SPEED)
        position = min(max(position + speed, MIN_POSITION), MAX_POSITION)
        if position == MIN_POSITION and speed < 0:
            speed = 0.0

        state[i, 0], state[i, 1] = position, speed
        obs[i, 0], obs[i, 1] = position, speed
        reward[i] = -1.0
        elapsed[i] += 1
        terminated[i] = position >= GOAL and speed >= 0
        truncated[i] = elapsed[i] >= limit
        ended += terminated[i] or truncated[i]
    return ended


@njit(cache=True, error_model="numpy")
def _rounded(value, single):  # type: ignore[no-untyped-def]
    """`value` in single precision where Gymnasium holds it so: a rounded float64 operation equals the float32 one."""
    return np.float64(np.float32(value)) if single else np.float64(value)


@njit(cache=True, error_model="numpy")
def _step_continuous(actions, state, obs, reward, terminated, truncated, elapsed, limit):  # type: ignore[no-untyped-def]
    ended = 0
    for i in range(actions.shape[0]):
        position, speed, action = state[i, 0], state[i, 1], np.float64(actions[i, 0])
        # Gymnasium draws the first state in float64 and stores every later one in float32.
        single = elapsed[i] > 0
        # An action inside the bounds stays float32; a clipped one becomes the float64 bound.
        inside = -1.0 <= action <= 1.0
        force = min(max(action, -1.0), 1.0)
        push = _rounded(force * _rounded(CONTINUOUS_POWER, inside), inside)
        pull = _rounded(GRAVITY * math.cos(_rounded(3 * position, single)), inside)
        speed = _rounded(speed + _rounded(_rounded(push - pull, inside), single), single)
        max_speed = _rounded(MAX_SPEED, single)
        speed = min(max(speed, -max_speed), max_speed)
        min_position = _rounded(MIN_POSITION, single)
        position = _rounded(position + speed, single)
        position = min(max(position, min_position), _rounded(MAX_POSITION, single))
        if position == min_position and speed < 0:
            speed = 0.0

        elapsed[i] += 1
        terminated[i] = position >= _rounded(CONTINUOUS_GOAL, single) and speed >= 0
        truncated[i] = elapsed[i] >= limit
        reward[i] = (100.0 if terminated[i] else 0.0) - action * action * 0.1
        obs[i, 0], obs[i, 1] = position, speed
        state[i, 0], state[i, 1] = obs[i, 0], obs[i, 1]
        ended += terminated[i] or truncated[i]
    return ended


class MountainCar(NativeVectorEnv):
    """Push left, not at all, or right: state (position, speed), reward -1 until the goal."""

    env_id = "MountainCar-v0"
    state_size = 2
    kernel = staticmethod(_step)

    def initial_state(self, generator: np.random.Generator, options: dict[str, Any] | None) -> np.ndarray:
        low, high = maybe_parse_reset_bounds(options, -0.6, -0.4)
        return np.array([generator.uniform(low, high), 0.0])


class MountainCarContinuous(MountainCar):
    """A push in [-1, 1]: reward 100 at the goal, minus a tenth of the squared action."""

    env_id = "MountainCarContinuous-v0"
    kernel = staticmethod(_step_continuous)
