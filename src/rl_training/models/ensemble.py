"""Independent layers evaluated as one batched operation: (members, batch, inputs) -> (members, batch, outputs)."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Ensemble(nn.Module):
    """A layer whose parameters have a leading axis of members."""

    def of(self, x: Tensor, members: slice | Tensor) -> Tensor:
        """What some of the members (a slice or their indices) make of their rows of x."""
        raise NotImplementedError()


class EnsembleLinear(Ensemble):
    """`members` linear maps with their own parameters."""

    def __init__(self, members: int, inputs: int, outputs: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(members, inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(members, 1, outputs).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, x, self.weight)

    def of(self, x: Tensor, members: slice | Tensor) -> Tensor:
        return torch.baddbmm(self.bias[members], x, self.weight[members])


class EnsembleLayerNorm(Ensemble):
    """`members` layer norms with their own scale and shift."""

    def __init__(self, members: int, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(members, 1, width))
        self.bias = nn.Parameter(torch.zeros(members, 1, width))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addcmul(self.bias, self._standardized(x), self.weight)

    def of(self, x: Tensor, members: slice | Tensor) -> Tensor:
        return torch.addcmul(self.bias[members], self._standardized(x), self.weight[members])

    def _standardized(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], eps=self.eps)


def through(layers: Iterable[nn.Module], x: Tensor, members: slice | Tensor) -> Tensor:
    """x through layers, some of which are ensembles, for some of the members."""
    for layer in layers:
        x = layer.of(x, members) if isinstance(layer, Ensemble) else layer(x)
    return x
