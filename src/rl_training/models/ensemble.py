"""Independent linear layers evaluated as one batched product."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class EnsembleLinear(nn.Module):
    """`members` linear maps with their own parameters: (members, batch, inputs) -> (members, batch, outputs)."""

    def __init__(self, members: int, inputs: int, outputs: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(members, inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(members, 1, outputs).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, x, self.weight)

    def first(self, x: Tensor) -> Tensor:
        """The first member alone: (1, batch, inputs) -> (1, batch, outputs)."""
        return torch.baddbmm(self.bias[:1], x, self.weight[:1])
