"""Batch renormalization (Ioffe 2017, arXiv:1702.03275) as CrossQ uses it, and networks made with it.

A plain call normalizes with the running statistics and changes nothing: acting, evaluation and every pass that is not learned
from need no mode to be set. Learning calls `in_training`, which returns the batch's statistics beside the result; `absorb` puts
them into the running ones afterwards, outside the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from rl_training.config import ModelConfig
from rl_training.models.encoders import make_encoder
from rl_training.models.ensemble import EnsembleLinear
from rl_training.models.mlp import ACTIVATIONS, hidden_gain, initialize
from rl_training.specs import ActionSpec, ObsSpec

Statistics = list[tuple[Tensor, Tensor]]  # mean and variance of the batch at every normalization of a network


class BatchRenorm(nn.Module):
    """(..., B, width): normalizes over the batch. For the first `warmup` updates with the batch's statistics alone; from then
    on these are corrected towards the running ones, by a scale within [1/3, 3] and a shift within [-5, 5]."""

    mean: Tensor
    var: Tensor
    updates: Tensor

    def __init__(
        self, width: int, members: int | None = None, momentum: float = 0.99, eps: float = 1e-3, warmup: int = 100_000
    ) -> None:
        super().__init__()
        shape = (1, width) if members is None else (members, 1, width)
        self.momentum, self.eps, self.warmup = momentum, eps, warmup
        self.weight, self.bias = nn.Parameter(torch.ones(shape)), nn.Parameter(torch.zeros(shape))
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("var", torch.ones(shape))
        self.register_buffer("updates", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / (self.var + self.eps).sqrt() * self.weight + self.bias

    def in_training(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The result with the batch's own (biased) statistics, and these."""
        mean = x.mean(-2, keepdim=True)
        var = (x - mean).square().mean(-2, keepdim=True)
        deviation = (var + self.eps).sqrt()
        running = (self.var + self.eps).sqrt()
        warm = self.updates >= self.warmup
        scale = torch.where(warm, (deviation.detach() / running).clamp(1 / 3, 3.0), 1.0)
        shift = torch.where(warm, ((mean.detach() - self.mean) / running).clamp(-5.0, 5.0), 0.0)
        y = ((x - mean) / deviation * scale + shift) * self.weight + self.bias
        return y, (mean.detach(), var.detach())

    @torch.no_grad()
    def absorb(self, mean: Tensor, var: Tensor) -> None:
        self.mean.lerp_(mean, 1 - self.momentum)
        self.var.lerp_(var, 1 - self.momentum)
        self.updates.add_(1.0)


def in_training(net: nn.Sequential, x: Any) -> tuple[Tensor, Statistics]:
    """A pass of `net` with the statistics of the batch, and these for `absorb`."""
    statistics = []
    for layer in net:
        if isinstance(layer, BatchRenorm):
            x, found = layer.in_training(x)
            statistics.append(found)
        else:
            x = layer(x)
    return x, statistics


def absorb(net: nn.Sequential, statistics: Statistics) -> None:
    """Move the running statistics of `net` towards those of a batch."""
    for layer, found in zip((layer for layer in net if isinstance(layer, BatchRenorm)), statistics):
        layer.absorb(*found)


def renormalized_mlp(
    inputs: int,
    outputs: int,
    model: ModelConfig,
    *,
    hidden: Sequence[int] | None = None,
    linear: Callable[[int, int], nn.Module] = nn.Linear,
    norm: Callable[[int], nn.Module] = BatchRenorm,
) -> nn.Sequential:
    """Like `mlp`, with a renormalization of the input and one after each activation."""
    layers: list[nn.Module] = [norm(inputs)]
    for width in model.hidden if hidden is None else hidden:
        layers.append(initialize(linear(inputs, width), model.init, hidden_gain(model.activation)))
        layers += [ACTIVATIONS[model.activation](), norm(width)]
        inputs = width
    layers.append(initialize(linear(inputs, outputs), model.init, 1.0))
    return nn.Sequential(*layers)


class JointCritic(nn.Module):
    """Q(s, a) of `members` critics whose statistics cover taken and next actions together."""

    def __init__(self, obs: ObsSpec, action: ActionSpec, model: ModelConfig, hidden: Sequence[int], members: int = 2) -> None:
        super().__init__()
        self.members = members
        self.encoder, features = make_encoder(obs, model)
        linear, norm = partial(EnsembleLinear, members), partial(BatchRenorm, members=members)
        self.body = renormalized_mlp(features + action.dim, 1, model, hidden=hidden, linear=linear, norm=norm)

    def forward(self, obs: Any, action: Tensor) -> Tensor:
        """(members, B) by the running statistics."""
        return self.body(self._inputs(obs, action)).squeeze(-1)

    def joint(self, obs: Any, action: Tensor, next_obs: Any, next_action: Tensor) -> tuple[Tensor, Tensor, Statistics]:
        """Values of (s, a) and of (s', a') from one pass over all rows, and the statistics of that pass."""
        x = torch.cat([self._inputs(obs, action), self._inputs(next_obs, next_action)], -2)
        values, statistics = in_training(self.body, x)
        q, next_q = values.squeeze(-1).chunk(2, -1)
        return q, next_q, statistics

    def _inputs(self, obs: Any, action: Tensor) -> Tensor:
        x = torch.cat([self.encoder(obs), action], -1)
        return x.expand(self.members, *x.shape)
