"""What the tests of AWAC and CRR share: critics and policies whose values and samples are known."""

from __future__ import annotations

from typing import Any

import torch
from sac_family import algorithm
from torch import Tensor, nn


class Reads(nn.Module):
    """Values an action at its first number, by the first critic; the second says one more."""

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        return torch.stack([action[:, 0], action[:, 0] + 1.0])


class Draws(nn.Module):
    """A policy whose k-th sample for an observation is its first number times the k-th factor."""

    def __init__(self, factors: list[float]) -> None:
        super().__init__()
        self.factors = torch.tensor(factors)

    def sample(self, obs: Tensor) -> Tensor:
        return obs[:, :1] * self.factors.repeat_interleave(len(obs) // len(self.factors))[:, None]


def weights(name: str, factors: list[float], taken: list[float], **settings: Any) -> tuple[list[float], list[float]]:
    """Advantages and weights of actions worth `taken`, where samples of the policy are worth `factors`."""
    rule = algorithm(name, normalize_obs=False, **settings)
    rule.critic, rule.policy = Reads(), Draws(factors)
    out = rule.weighted({"obs": torch.ones(len(taken), 3), "action": torch.tensor(taken)[:, None]})
    return out["advantage"].tolist(), out["actor_weight"].tolist()
