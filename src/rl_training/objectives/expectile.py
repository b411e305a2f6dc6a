"""Expectiles: a mean that weighs errors to one side more."""

from __future__ import annotations

from torch import Tensor


def expectile_loss(error: Tensor, expectile: float) -> Tensor:
    """|expectile - 1[error < 0]| error^2: its minimum lies above the mean for expectiles above 1/2. Elementwise."""
    return (error < 0).to(error.dtype).sub(expectile).abs() * error.square()
