"""The term that makes critics conservative (Kumar et al. 2020, arXiv:2006.04779), for whatever kind of action."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from rl_training.algorithms.base import Batch

LARGEST = 1e6  # of the learned multiplier


class Conservative(nn.Module):
    """penalty * (soft maximum of Q over proposed actions - Q of the data's action), where that gap is within `bounds`.

    With `gap_target` a multiplier of the penalty is learned that holds the mean gap there. It starts at 1.
    """

    def __init__(
        self, penalty: float, temperature: float, bounds: tuple[float | None, float | None], gap_target: float | None
    ) -> None:
        super().__init__()
        self.penalty, self.temperature, self.gap_target = penalty, temperature, gap_target
        low, high = bounds
        self.low, self.high = -math.inf if low is None else low, math.inf if high is None else high
        self.log_multiplier = None if gap_target is None else nn.Parameter(torch.zeros(()))

    def gap(self, proposed: Tensor, data_q: Tensor) -> Tensor:
        """How much more proposed actions (..., K, B), whose densities are accounted for, seem worth than the data's (..., B)."""
        gap = self.temperature * (proposed / self.temperature).logsumexp(-2) - data_q
        return gap.clamp(self.low, self.high)

    def forward(self, gap: Tensor) -> tuple[Tensor, Batch]:
        """What the critics (members, B) pay, summed over members."""
        mean, out = gap.mean(-1), {"gap": gap.detach().mean()}
        if self.log_multiplier is None:
            return self.penalty * mean.sum(), out
        multiplier = self.multiplier(self.log_multiplier).detach()
        return multiplier * self.penalty * mean.sum(), out | {"multiplier": multiplier}

    def multiplier(self, log: Tensor) -> Tensor:
        return log.exp().clamp(max=LARGEST)

    def multiplier_loss(self, gap: Tensor) -> tuple[Tensor, Batch]:
        """Its gradient raises the multiplier where the mean gap is above its target."""
        assert self.log_multiplier is not None and self.gap_target is not None
        loss = -self.multiplier(self.log_multiplier) * self.penalty * (gap - self.gap_target)
        return loss, {"multiplier_loss": loss.detach()}
