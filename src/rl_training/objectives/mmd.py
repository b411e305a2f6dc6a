"""Maximum mean discrepancy (Gretton et al. 2012): how far two sets of samples are from having one distribution."""

from __future__ import annotations

from torch import Tensor


def mmd(x: Tensor, y: Tensor, kernel: str, sigma: float) -> Tensor:
    """Between the n samples of x and the m of y in every row, biased (pairs with themselves count): (B, n, A), (B, m, A) -> (B,).

    Kernels are exp(-d / (2 sigma)) of the distance d = |x - y|_1 (laplacian) or |x - y|_2^2 (gaussian), as BEAR has them. Under
    the root is 1e-6, without which equal sets would have an infinite gradient.
    """

    def likeness(a: Tensor, b: Tensor) -> Tensor:
        apart = a.unsqueeze(-2) - b.unsqueeze(-3)
        distance = (apart.abs() if kernel == "laplacian" else apart.square()).sum(-1)
        return (distance / (-2.0 * sigma)).exp().mean((-2, -1))

    return (likeness(x, x) + likeness(y, y) - 2.0 * likeness(x, y) + 1e-6).sqrt()
