"""Gumbel regression: a soft maximum by a loss, where least squares gives the mean."""

from __future__ import annotations

from torch import Tensor


def gumbel_loss(error: Tensor, clip: float) -> Tensor:
    """e^z - z - 1 of z = min(error, clip), times e^-m with m = max(-1, largest z of the batch), so that nothing overflows.

    Least where the mean of e^z is 1: for error = (q - v) / beta at v = beta log mean e^(q / beta). Elementwise; what is clipped
    has no gradient.
    """
    z = error.clamp(max=clip)
    m = z.detach().max().clamp(min=-1.0)
    return (z - m).exp() - (z + 1.0) * (-m).exp()
