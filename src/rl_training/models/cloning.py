"""Policies that are fitted to stored actions by their log-probability."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rl_training.config import ModelConfig
from rl_training.models import distributions as dist
from rl_training.models.encoders import make_encoder
from rl_training.models.mlp import Tanh, mlp
from rl_training.models.policies import Array, CategoricalPolicy, Policy
from rl_training.specs import ActionSpec, ObsSpec


class ClippedGaussianPolicy(Policy):
    """A Gaussian whose samples are clipped to [-1, 1], with a deviation that is the same in all states.

    Its density is that of the Gaussian itself, so that stored actions at the bounds have a finite one. `squash`: the mean is the
    tanh of the network's output.
    """

    def __init__(
        self,
        obs: ObsSpec,
        action: ActionSpec,
        model: ModelConfig,
        *,
        log_std_bounds: tuple[float, float] = (-5.0, 2.0),
        squash: bool = True,
        output_gain: float = 1.0,
    ) -> None:
        super().__init__(obs, model)
        self.bounds = log_std_bounds
        encoder, features = make_encoder(obs, model)
        body = mlp(features, action.dim, model, output_gain=output_gain)
        self.net = nn.Sequential(encoder, *body, *[Tanh()] * squash)
        self.log_std = nn.Parameter(torch.full((action.dim,), model.log_std_init))

    def evaluate(self, mean: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Log-density of stored actions and entropy, both (B,)."""
        log_std = self.log_std.clamp(*self.bounds).expand_as(mean)
        return dist.gaussian_log_prob(mean, log_std, action), dist.gaussian_entropy(log_std)

    def log_prob(self, obs: Any, action: Tensor) -> Tensor:
        """Log-density of stored actions for normalized observations, (B,)."""
        return self.evaluate(self.net(obs), action)[0]

    def sample(self, obs: Any) -> Tensor:
        """Actions for normalized observations."""
        mean = self.net(obs)
        return (mean + self.log_std.clamp(*self.bounds).exp() * torch.randn_like(mean)).clamp(-1.0, 1.0)

    def choose(self, outputs: Array, rng: np.random.Generator, step: int, explore: bool) -> Array:
        if explore:
            std = np.exp(self.log_std.detach().cpu().numpy().clip(*self.bounds))
            outputs = outputs + std * rng.standard_normal(outputs.shape, np.float32)
        return outputs.clip(-1.0, 1.0)


def cloning_policy(
    obs: ObsSpec, action: ActionSpec, model: ModelConfig, **gaussian: Any
) -> CategoricalPolicy | ClippedGaussianPolicy:
    """For whatever kind of action; `gaussian` is for continuous ones."""
    if action.kind == "continuous":
        return ClippedGaussianPolicy(obs, action, model, **gaussian)
    return CategoricalPolicy(obs, action, model)
