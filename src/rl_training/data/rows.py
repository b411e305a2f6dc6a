"""The packed rows of a storage: where they lie, and how a batch of windows is gathered from them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from numba import njit
from numpy.typing import NDArray


def make_rows(shape: tuple[int, int], scratch: Path | None) -> NDArray[np.float32]:
    """Rows in memory, or in a nameless file in the folder `scratch`, which goes away with them."""
    if scratch is None:
        return np.zeros(shape, np.float32)
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=scratch) as file:
        file.truncate(4 * shape[0] * shape[1])
        return np.memmap(file, np.float32, "r+", shape=shape).view(np.ndarray)


@njit(cache=True)
def gather_windows(
    rows: NDArray[np.float32],
    index: NDArray[np.int64],
    envs: int,
    newest: int,
    obs_size: int,
    action_size: int,
    n_step: int,
    gamma: float,
    out: NDArray[np.float32],
) -> NDArray[np.int64]:
    """Fill out rows [obs | action | next_obs | n-step reward | discount]; return the storage row each window ends in."""
    steps = len(rows) // envs
    reward_at = 2 * obs_size + action_size
    last = np.empty(len(index), np.int64)
    for b in range(len(index)):
        t, n = index[b] // envs, index[b] % envs
        total, scale = 0.0, 1.0
        end, row = t, rows[index[b]]
        for k in range(n_step):
            end = (t + k) % steps
            row = rows[end * envs + n]
            total += scale * row[reward_at]
            scale *= gamma
            # A window stops where its episode does, or at the newest stored step; it then bootstraps with gamma^(k+1).
            if row[reward_at + 1] != 0.0 or row[reward_at + 2] != 0.0 or end == newest:
                break
        first = rows[index[b]]
        for j in range(obs_size + action_size):
            out[b, j] = first[j]
        for j in range(obs_size):
            out[b, obs_size + action_size + j] = row[obs_size + action_size + j]
        out[b, reward_at] = total
        out[b, reward_at + 1] = 0.0 if row[reward_at + 1] != 0.0 else scale
        last[b] = end * envs + n
    return last
