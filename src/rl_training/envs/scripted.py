"""Controllers written by hand for environments where one is known: behaviour of a known quality, for data and for comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Controller: TypeAlias = Callable[[Any, np.random.Generator], Any]
"""One observation and a generator in, an action in the environment's own units out."""


def swing_up(obs: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float64]:
    """Pendulum: pump energy until the pole is near upright, then hold it there; a little noise leads it off exact repeats."""
    cosine, sine, speed = (float(value) for value in obs)
    angle = np.arctan2(sine, cosine)
    if abs(angle) < 0.5:
        torque = -(10.0 * angle + 2.0 * speed)
    else:
        missing = 15.3 - (0.5 * speed**2 + 15.0 * cosine)  # to stand upright takes 15, and some to get there
        torque = np.sign(speed) * np.clip(2.0 * missing, -4.0, 4.0)
    return np.clip([torque], -2.0, 2.0) + rng.normal(0.0, 0.1, 1)


def rock_the_car(obs: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float64]:
    """MountainCarContinuous: nearly full force the way the car is moving, which reaches the goal every time."""
    return np.array([0.999 if obs[1] >= 0 else -0.999])


def catch_the_pole(obs: NDArray[np.float32], rng: np.random.Generator) -> int:
    """CartPole: push toward where the pole falls."""
    return int(obs[2] + obs[3] > 0)


CONTROLLERS: dict[str, Controller] = {
    "Pendulum-v1": swing_up,
    "MountainCarContinuous-v0": rock_the_car,
    "CartPole-v1": catch_the_pole,
}
