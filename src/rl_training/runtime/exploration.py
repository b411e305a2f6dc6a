"""Exploration noise that lasts: a light push in one direction for a while, where white noise only trembles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


class LastingNormals(np.random.Generator):
    """A generator whose normals resemble those of the step before, per environment and dimension, and still have variance 1.

    This is the Ornstein-Uhlenbeck process of Lillicrap et al. 2016 (arXiv:1509.02971) in discrete time, of unit size: x' = c x +
    sqrt(1 - c^2) e. Policies scale it as they scale white noise. An episode starts with a fresh value.
    """

    def __init__(self, generator: np.random.Generator, correlation: float) -> None:
        super().__init__(generator.bit_generator)
        self.correlation = correlation
        self.last: NDArray[np.float32] | None = None

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        fresh = super().standard_normal(size, dtype, out)
        if self.last is not None:
            fresh = np.asarray(self.correlation * self.last + math.sqrt(1 - self.correlation**2) * fresh, dtype)
        self.last = fresh
        return fresh

    def restart(self, ended: NDArray[np.bool_]) -> None:
        """Forget the noise of environments whose episode ended."""
        if self.last is not None:
            self.last[ended] = super().standard_normal((int(ended.sum()), *self.last.shape[1:]), self.last.dtype)
