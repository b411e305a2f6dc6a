"""Gradient descent with momentum (Polyak 1964), as AWR's authors train with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rl_training.algorithms.optim import Optim

if TYPE_CHECKING:
    from rl_training.algorithms.base import Algorithm


class Momentum(Optim):
    """Steps along a sum of gradients that fades by `momentum`: a steady gradient is followed 1 / (1 - momentum) times as fast."""

    velocity: Tensor

    def __init__(
        self, owner: Algorithm, parts: Sequence[str], lr: float, *, max_norm: float | None = None, momentum: float = 0.9
    ) -> None:
        super().__init__(owner, parts, lr, max_norm=max_norm)
        self.momentum = momentum

    def register_moments(self) -> None:
        self.register_buffer("velocity", torch.zeros_like(self.flat))

    def move(self, grad: Tensor) -> None:
        self.velocity.mul_(self.momentum).add_(grad)
        self.flat.sub_(self.lr * self.velocity)
