"""Quantile regression with a Huber loss (Dabney et al. 2018, arXiv:1710.10044)."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def quantile_huber(prediction: Tensor, target: Tensor, tau: Tensor, kappa: float = 1.0) -> Tensor:
    """|tau - 1[u < 0]| H(u) / kappa for every pair, with u = target_j - prediction_i: (..., N), (..., M) -> (..., N, M).

    `tau` (N,) or (..., N) belongs to the predictions: it runs along the second last axis of the result.
    """
    error = target.unsqueeze(-2) - prediction.unsqueeze(-1)
    weight = (tau.unsqueeze(-1) - (error.detach() < 0).float()).abs()
    return weight * F.huber_loss(error, error.new_zeros(()).expand_as(error), reduction="none", delta=kappa) / kappa
