"""Values of discrete actions beside what the data do: only actions that are likely enough there may be chosen."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from rl_training.config import ModelConfig
from rl_training.models.encoders import make_encoder
from rl_training.models.mlp import mlp
from rl_training.specs import ActionSpec, ObsSpec

NEVER = -1e8  # the value of an action that may not be chosen


def allowed(logits: Tensor, threshold: float) -> Tensor:
    """Which actions are more than `threshold` times as likely as the likeliest, which always is: (B, A) -> (B, A)."""
    gap = logits - logits.max(-1, keepdim=True).values
    return (gap > (math.log(threshold) if threshold else -math.inf)) | (gap == 0)


class ImitatingQNet(nn.Module):
    """A network of values and one of imitation on one encoder; called, it gives values, very low ones for rare actions."""

    def __init__(self, obs: ObsSpec, action: ActionSpec, model: ModelConfig, threshold: float) -> None:
        super().__init__()
        self.threshold = threshold
        self.encoder, features = make_encoder(obs, model)
        self.values, self.imitation = mlp(features, action.n, model), mlp(features, action.n, model)

    def forward(self, obs: Any) -> Tensor:
        q, logits = self.both(obs)
        return torch.where(allowed(logits, self.threshold), q, NEVER)

    def both(self, obs: Any) -> tuple[Tensor, Tensor]:
        """Values as they are, and logits of the data's actions, both (B, A)."""
        features = self.encoder(obs)
        return self.values(features), self.imitation(features)
