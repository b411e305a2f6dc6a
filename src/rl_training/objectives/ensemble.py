"""What many critics make of one value, and how far they agree on where it rises."""

from __future__ import annotations

from torch import Tensor


def soft_clipped(q: Tensor, pessimism: float) -> Tensor:
    """pessimism * min + (1 - pessimism) * max over members (Fujimoto et al. 2019, arXiv:1812.02900): (members, ...) -> (...)."""
    low, high = q.aminmax(dim=0)
    return pessimism * low + (1.0 - pessimism) * high


def alignment(slopes: Tensor) -> Tensor:
    """How alike the directions of N slopes are (An et al. 2021, arXiv:2110.01548): (N, B, A) -> 0-d.

    1/(N-1) of the mean over rows of the sum over pairs i != j of the cosines of g_i and g_j: N if all slopes are parallel,
    -N/(N-1) at the least. The sum over all pairs is the square of the sum, so it costs N dot products and not N^2.
    """
    unit = slopes / (slopes.norm(dim=-1, keepdim=True) + 1e-10)
    pairs = unit.sum(0).square().sum(-1) - unit.square().sum((0, -1))
    return pairs.mean() / (len(slopes) - 1)
