"""Sum tree for proportional prioritized replay (Schaul et al. 2016, arXiv:1511.05952), float64 so that sums do not drift."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rl_training.state import Tree

EPSILON = 1e-6


@njit(cache=True)
def _assign(tree: NDArray[np.float64], leaves: int, index: NDArray[np.int64], priority: NDArray[np.float64]) -> None:
    for i in range(len(index)):
        node = leaves + index[i]
        tree[node] = priority[i]
        node //= 2
        while node >= 1:
            tree[node] = tree[2 * node] + tree[2 * node + 1]
            node //= 2


@njit(cache=True)
def _find(tree: NDArray[np.float64], leaves: int, mass: NDArray[np.float64]) -> NDArray[np.int64]:
    out = np.empty(len(mass), np.int64)
    for i in range(len(mass)):
        m, node = mass[i], 1
        while node < leaves:
            # An empty right branch is never entered, whatever rounding did to m.
            if m < tree[2 * node] or tree[2 * node + 1] == 0.0:
                node = 2 * node
            else:
                m -= tree[2 * node]
                node = 2 * node + 1
        out[i] = node - leaves
    return out


class PriorityTree:
    """P(i) = p_i^alpha / sum; new rows get the largest priority seen; zero mass means "never sample"."""

    def __init__(self, size: int, alpha: float) -> None:
        self.leaves = 1 << max(1, (size - 1).bit_length())
        self.tree = np.zeros(2 * self.leaves)
        self.alpha, self.largest = alpha, 1.0

    def insert(self, index: NDArray[np.int64]) -> None:
        _assign(self.tree, self.leaves, index, np.full(len(index), self.largest**self.alpha))

    def remove(self, index: NDArray[np.int64]) -> None:
        _assign(self.tree, self.leaves, index, np.zeros(len(index)))

    def update(self, index: NDArray[np.int64], error: NDArray[np.float64]) -> None:
        """Set priorities |error| + 1e-6; rows removed since they were drawn stay removed."""
        alive = self.tree[self.leaves + index] > 0
        priority = np.abs(error[alive]) + EPSILON
        self.largest = max(self.largest, float(priority.max(initial=0.0)))
        _assign(self.tree, self.leaves, index[alive], priority**self.alpha)

    def sample(
        self, count: int, beta: float, stored: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """One draw per equal segment of the total mass, and importance weights divided by their largest."""
        total = self.tree[1]
        index = _find(self.tree, self.leaves, (np.arange(count) + rng.random(count)) * (total / count))
        weight = (stored * self.tree[self.leaves + index] / total) ** -beta
        return index, (weight / weight.max()).astype(np.float32)

    def state_dict(self, stored: int) -> dict[str, Tree]:
        """The masses of the rows in use; the tree above them follows."""
        return {"mass": self.tree[self.leaves : self.leaves + stored], "largest": self.largest}

    def load_state_dict(self, state: dict[str, Tree]) -> None:
        self.tree[self.leaves :] = 0.0
        self.tree[self.leaves : self.leaves + len(state["mass"])] = state["mass"]
        level = self.leaves
        while level > 1:
            self.tree[level // 2 : level] = self.tree[level : 2 * level : 2] + self.tree[level + 1 : 2 * level : 2]
            level //= 2
        self.largest = state["largest"]
