"""Images stored as single frames: a stack of S frames is rebuilt from the S newest ones when it is sampled."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rl_training.data.chunked import chunked
from rl_training.specs import Leaf
from rl_training.state import Tree


@njit(cache=True)
def _stack(
    frames: NDArray[np.uint8], newest: NDArray[np.int64], env: NDArray[np.int64], out: NDArray[np.uint8]
) -> None:
    length, size = out.shape[1], frames.shape[0]
    for b in range(len(newest)):
        for k in range(length):
            out[b, length - 1 - k] = frames[(newest[b] - k) % size, env[b]]


class FrameStore:
    """A ring of frames per env: a step adds the newest frame of its next observation, an episode start its first stack."""

    def __init__(self, leaf: Leaf, steps: int, envs: int) -> None:
        self.leaf, self.steps, self.envs = leaf, steps, envs
        self.frame = self.frame_shape(leaf)
        # Room for the first stacks of episodes; episodes shorter than 4 stacks evict old steps a little early.
        self.size = steps + steps // 4 + 2 * leaf.stack
        self.frames = np.zeros((self.size, envs, int(np.prod(self.frame))), np.uint8)
        self.count = np.zeros(envs, np.int64)  # frames ever written, per env
        self.newest = np.zeros((steps, envs), np.int64)  # per step: which frame is the newest of its observation
        self.ended = np.ones(envs, np.bool_)

    @staticmethod
    def frame_shape(leaf: Leaf) -> tuple[int, ...]:
        return leaf.shape if leaf.stack == 1 else (leaf.shape[0] // leaf.stack, *leaf.shape[1:])

    def add(
        self, obs: NDArray[np.uint8], next_obs: NDArray[np.uint8], done: NDArray[np.bool_], slots: NDArray[np.int64]
    ) -> None:
        """Write a chunk (T, N, ...) of observations whose steps go to `slots`."""
        obs = obs.reshape(*obs.shape[:2], self.leaf.stack, -1)
        next_obs = next_obs.reshape(obs.shape)
        for t, slot in enumerate(slots):
            for n in range(self.envs):
                if self.ended[n]:
                    for frame in obs[t, n]:
                        self._push(n, frame)
                self.newest[slot, n] = self.count[n] - 1
                self._push(n, next_obs[t, n, -1])
                self.ended[n] = done[t, n]

    def _push(self, env: int, frame: NDArray[np.uint8]) -> None:
        self.frames[self.count[env] % self.size, env] = frame
        self.count[env] += 1

    def alive(self, index: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which rows still have every frame of their stack."""
        env = index % self.envs
        oldest_needed = self.newest[index // self.envs, env] - self.leaf.stack + 1
        return oldest_needed >= self.count[env] - self.size

    def stacks(self, index: NDArray[np.int64], after: bool) -> NDArray[np.uint8]:
        """The observations (B, ...) of these rows, or those one step after."""
        env = index % self.envs
        out = np.empty((len(index), self.leaf.stack, self.frames.shape[-1]), np.uint8)
        _stack(self.frames, self.newest[index // self.envs, env] + after, env, out)
        return out.reshape(len(index), *self.leaf.shape)

    def state_dict(self) -> dict[str, Tree]:
        frames = chunked(f"frames.{self.leaf.key}", self.frames.reshape(self.size, -1), self.count)
        return {"frames": frames, "count": self.count, "newest": self.newest, "ended": self.ended}

    def load_state_dict(self, state: dict[str, Tree]) -> None:
        state["frames"].fill(self.frames.reshape(self.size, -1))
        self.count, self.newest, self.ended = (np.array(state[k]) for k in ("count", "newest", "ended"))
