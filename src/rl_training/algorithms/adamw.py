"""Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv:1711.05101) and steps that grow to their full size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from rl_training.algorithms.optim import Optim

if TYPE_CHECKING:
    from rl_training.algorithms.base import Algorithm


class AdamW(Optim):
    """Step n = 1, 2, .. of `warmup` is n / warmup as long as those that follow; every weight decays with it."""

    def __init__(
        self,
        owner: Algorithm,
        parts: Sequence[str],
        lr: float,
        *,
        weight_decay: float,
        warmup: int,
        max_norm: float | None = None,
    ) -> None:
        super().__init__(owner, parts, lr, max_norm=max_norm)
        self.full, self.weight_decay, self.warmup = lr, weight_decay, warmup

    def move(self, grad: Tensor) -> None:
        if self.warmup:
            self.lr.copy_(self.full * ((self.steps + 1.0) / self.warmup).clamp(max=1.0))
        self.flat.mul_(1.0 - self.lr * self.weight_decay)
        super().move(grad)
