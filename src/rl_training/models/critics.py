"""State values, and action values of continuous actions."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from rl_training.config import ModelConfig
from rl_training.models.encoders import beside, make_encoder
from rl_training.models.ensemble import EnsembleLayerNorm, EnsembleLinear, through
from rl_training.models.mlp import mlp
from rl_training.specs import ActionSpec, ObsSpec


class ValueNet(nn.Module):
    """V(s): observations (B, ...) -> (B,)."""

    def __init__(self, obs: ObsSpec, model: ModelConfig) -> None:
        super().__init__()
        self.encoder, features = make_encoder(obs, model)
        self.body = mlp(features, 1, model)

    def forward(self, obs: Any) -> Tensor:
        return self.body(self.encoder(obs)).squeeze(-1)


class ScaledValueNet(ValueNet):
    """V(s) in units of `scale`: the network's outputs stay near 1 where values are that large."""

    def __init__(self, obs: ObsSpec, model: ModelConfig, scale: float) -> None:
        super().__init__(obs, model)
        self.scale = scale

    def forward(self, obs: Any) -> Tensor:
        return self.scale * super().forward(obs)


class EnsembleCritic(nn.Module):
    """Q(s, a) of `members` independent critics: (B, ...), (B, A) -> (members, B), or (members, B, outputs)."""

    def __init__(
        self,
        obs: ObsSpec,
        action: ActionSpec,
        model: ModelConfig,
        members: int,
        outputs: int = 1,
        dropout: float = 0.0,
        norm_last: bool = False,
    ) -> None:
        super().__init__()
        self.members = members
        self.encoder, features = make_encoder(obs, model)
        linear, norm = partial(EnsembleLinear, members), partial(EnsembleLayerNorm, members)
        self.body = mlp(
            features + action.dim, outputs, model, linear=linear, norm=norm, dropout=dropout, norm_last=norm_last
        )

    def forward(self, obs: Any, action: Tensor) -> Tensor:
        x = torch.cat([self.encoder(obs), action], -1)
        return self.body(x.expand(self.members, *x.shape)).squeeze(-1)

    def of_action(self, obs: Any, action: Tensor) -> Tensor:
        """Q(s, a) under the name that critics of discrete actions have for it."""
        return self(obs, action)

    def of(self, obs: Any, action: Tensor, members: slice | Tensor) -> Tensor:
        """The values of some members alone (a slice or their indices): the work of so many."""
        x = torch.cat([self.encoder(obs), action], -1)
        count = len(range(self.members)[members]) if isinstance(members, slice) else len(members)
        return through(self.body, x.expand(count, *x.shape), members).squeeze(-1)

    def of_each(self, obs: Any, action: Tensor) -> Tensor:
        """Q(s, a) where every critic is asked about actions of its own: (B, ...), (members, B, A) -> (members, B)."""
        features = self.encoder(obs)
        return self.body(torch.cat([features.expand(self.members, *features.shape), action], -1)).squeeze(-1)

    def of_many(self, obs: Any, action: Tensor, members: slice = slice(None)) -> Tensor:
        """Several actions in each state: (B, ...), (B, n, A) -> (members, B, n). States are encoded once."""
        x = beside(self.encoder(obs), action)
        count = len(range(self.members)[members])
        values = through(self.body, x.flatten(0, 1).expand(count, -1, -1), members)
        return values.view(count, *x.shape[:2])

    def first(self, obs: Any, action: Tensor) -> Tensor:
        """Q(s, a) of the first critic alone, (B,): half the work where only that one is wanted."""
        return self.of(obs, action, slice(1))[0]


class DiscreteCritic(nn.Module):
    """Q(s, .) of `members` independent critics, each with an encoder of its own: (B, ...) -> (members, B, A)."""

    def __init__(self, obs: ObsSpec, action: ActionSpec, model: ModelConfig, members: int) -> None:
        super().__init__()
        encoders, (features, *_) = zip(*(make_encoder(obs, model) for _ in range(members)))
        self.encoders = nn.ModuleList(encoders)
        linear, norm = partial(EnsembleLinear, members), partial(EnsembleLayerNorm, members)
        self.body = mlp(features, action.n, model, linear=linear, norm=norm)

    def forward(self, obs: Any) -> Tensor:
        return self.body(torch.stack([encoder(obs) for encoder in self.encoders]))

    def of_action(self, obs: Any, action: Tensor) -> Tensor:
        """Q(s, a) of one action per row, (members, B)."""
        q = self(obs)
        return q.gather(-1, action.expand(q.shape[:-1]).unsqueeze(-1)).squeeze(-1)


def action_critic(obs: ObsSpec, action: ActionSpec, model: ModelConfig, members: int) -> EnsembleCritic | DiscreteCritic:
    """`members` critics for whatever kind of action, with `of_action(obs, action)`."""
    kind = EnsembleCritic if action.kind == "continuous" else DiscreteCritic
    return kind(obs, action, model, members)
