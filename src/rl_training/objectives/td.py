"""Temporal-difference targets and errors. `discount` is gamma^m times not-terminated, settled by the buffer."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def td_target(reward: Tensor, discount: Tensor, next_value: Tensor) -> Tensor:
    """reward + discount * next_value, without gradient."""
    return (reward + discount * next_value).detach()


def huber(error: Tensor, kappa: float = 1.0) -> Tensor:
    """Quadratic within kappa of zero, linear outside (derivative clipped to [-kappa, kappa])."""
    return F.huber_loss(error, torch.zeros_like(error), reduction="none", delta=kappa)
