"""Values of discrete actions: networks Q(s, .), and heads that turn what describes a distribution of returns into its mean.

A network has a plain trunk and a head of one hidden layer, which may be dueling and noisy. Per action it gives one number, or
`outputs` of them: logits of fixed atoms, or quantiles.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from rl_training.config import ModelConfig
from rl_training.errors import ConfigError
from rl_training.models.encoders import make_encoder
from rl_training.models.mlp import mlp
from rl_training.models.noisy import NoisyLinear
from rl_training.specs import ActionSpec, ObsSpec


def q_net(obs: ObsSpec, action: ActionSpec, model: ModelConfig, outputs: int = 1) -> nn.Sequential:
    """Q(s, .): observations (B, ...) -> (B, A), or (B, A, outputs)."""
    encoder, features = make_encoder(obs, model)
    if not (model.dueling or model.noisy):
        return nn.Sequential(encoder, *mlp(features, action.n * outputs, model), *_per_action(action.n, outputs))
    trunk, features = make_trunk(features, model)
    return nn.Sequential(encoder, *trunk, make_head(features, action.n, model, outputs))


def make_trunk(features: int, model: ModelConfig) -> tuple[nn.Sequential, int]:
    """All hidden layers but the last, which belongs to the head, and the features that they give."""
    if not model.hidden:
        raise ConfigError("This network's head needs a hidden layer.", fix="Give --model.hidden 64,64")
    shared = model.hidden[:-1]
    if model.block == "residual" and not shared:
        raise ConfigError(
            "model.block = residual makes blocks of all hidden layers but the last, which is the head's; there is only one.",
            fix=f"Give --model.hidden {model.hidden[0]},{model.hidden[0]} or leave out block",
        )
    return mlp(features, None, model, hidden=shared), shared[-1] if shared else features


def make_head(features: int, actions: int, model: ModelConfig, outputs: int = 1) -> nn.Module:
    """From features to values, through the last hidden layer."""
    if model.dueling:
        return Dueling(features, actions, model, outputs)
    return nn.Sequential(*_stream(features, actions * outputs, model), *_per_action(actions, outputs))


def _stream(features: int, outputs: int, model: ModelConfig) -> nn.Sequential:
    linear = partial(NoisyLinear, sigma=model.noisy_sigma) if model.noisy else nn.Linear
    return mlp(features, outputs, replace(model, block="plain"), hidden=model.hidden[-1:], linear=linear)


def _per_action(actions: int, outputs: int) -> list[nn.Module]:
    return [] if outputs == 1 else [nn.Unflatten(-1, (actions, outputs))]


class Dueling(nn.Module):
    """Q = V + A - mean A over actions, with a hidden layer each for V and A (Wang et al. 2016, arXiv:1511.06581)."""

    def __init__(self, features: int, actions: int, model: ModelConfig, outputs: int = 1) -> None:
        super().__init__()
        self.value = _stream(features, outputs, model)
        self.advantage = nn.Sequential(*_stream(features, actions * outputs, model), *_per_action(actions, outputs))
        self.axis = -1 if outputs == 1 else -2  # of the actions

    def forward(self, x: Tensor) -> Tensor:
        value, advantage = self.value(x), self.advantage(x)
        if self.axis == -2:
            value = value.unsqueeze(-2)
        return value + advantage - advantage.mean(self.axis, keepdim=True)


class ImplicitNet(nn.Module):
    """The quantile function of the return at any fractions tau (Dabney et al. 2018, arXiv:1806.06923): (B, N) -> (B, A, N).

    The features of a state are multiplied with ReLU(linear(cos(pi i tau))), i = 0 .. cosines - 1. Without `tau`, as in acting, it
    is evaluated at the middles of `acting` equal parts of [0, 1]: the same expectation, without the noise of sampling it.
    """

    middles: Tensor
    frequencies: Tensor

    def __init__(self, obs: ObsSpec, action: ActionSpec, model: ModelConfig, cosines: int, acting: int) -> None:
        super().__init__()
        self.encoder, features = make_encoder(obs, model)
        self.trunk, features = make_trunk(features, model)
        self.embedding = nn.Sequential(nn.Linear(cosines, features), nn.ReLU())
        self.head = make_head(features, action.n, model)
        self.register_buffer("middles", (torch.arange(acting) + 0.5) / acting, persistent=False)
        self.register_buffer("frequencies", torch.pi * torch.arange(cosines), persistent=False)

    def forward(self, obs: Any, tau: Tensor | None = None) -> Tensor:
        x = self.trunk(self.encoder(obs)).unsqueeze(-2)
        return self.head(x * self.embedded(self.middles if tau is None else tau)).transpose(-1, -2)

    def embedded(self, tau: Tensor) -> Tensor:
        """What multiplies the features, (..., N, features)."""
        return self.embedding((tau.unsqueeze(-1) * self.frequencies).cos())


class MeanOfAtoms(nn.Module):
    """Logits of fixed returns to their mean: (..., atoms) -> (...)."""

    atoms: Tensor

    def __init__(self, low: float, high: float, count: int) -> None:
        super().__init__()
        self.register_buffer("atoms", torch.linspace(low, high, count), persistent=False)

    def forward(self, logits: Tensor) -> Tensor:
        return (logits.softmax(-1) * self.atoms).sum(-1)


class MeanOfQuantiles(nn.Module):
    """(..., N) -> (...)."""

    def forward(self, quantiles: Tensor) -> Tensor:
        return quantiles.mean(-1)
