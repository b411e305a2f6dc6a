"""Generalized advantage estimation (Schulman et al. 2016, arXiv:1506.02438) as one compiled backward scan."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True)
def gae(
    reward: NDArray[np.float32],
    value: NDArray[np.float32],
    next_value: NDArray[np.float32],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    gamma: float,
    lam: float,
) -> NDArray[np.float32]:
    """Advantages (T, N). Termination stops the bootstrap; either kind of end stops the recursion."""
    steps, envs = reward.shape
    advantage = np.empty((steps, envs), np.float32)
    for n in range(envs):
        running = 0.0
        for t in range(steps - 1, -1, -1):
            bootstrap = 0.0 if terminated[t, n] else gamma * next_value[t, n]
            if terminated[t, n] or truncated[t, n]:
                running = 0.0
            running = reward[t, n] + bootstrap - value[t, n] + gamma * lam * running
            advantage[t, n] = running
    return advantage
