"""RMSprop (Tieleman & Hinton 2012) as TensorFlow defines it, which the published results of A2C rest on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rl_training.algorithms.optim import Optim

if TYPE_CHECKING:
    from rl_training.algorithms.base import Algorithm


class RMSprop(Optim):
    """Divides by the root of a running mean square that starts at 1, with eps under the root.

    PyTorch's starts at 0 and adds eps outside: its first step for a gradient of 0.001 is 9,000 times as long.
    """

    def __init__(
        self,
        owner: Algorithm,
        parts: Sequence[str],
        lr: float,
        *,
        max_norm: float | None = None,
        eps: float = 1e-5,
        alpha: float = 0.99,
    ) -> None:
        super().__init__(owner, parts, lr, max_norm=max_norm, eps=eps)
        self.alpha = alpha

    def register_moments(self) -> None:
        self.register_buffer("exp_avg_sq", torch.ones_like(self.flat))

    def move(self, grad: Tensor) -> None:
        self.exp_avg_sq.lerp_(grad.square(), 1 - self.alpha)
        self.flat.sub_(self.lr * grad / (self.exp_avg_sq + self.eps).sqrt())
