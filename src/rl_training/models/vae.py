"""What actions the data have in a state: a conditional variational autoencoder (Fujimoto et al. 2019, arXiv:1812.02900)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rl_training.config import ModelConfig
from rl_training.models.encoders import beside, make_encoder
from rl_training.models.mlp import mlp
from rl_training.specs import ActionSpec, ObsSpec

LOG_STD_MIN, LOG_STD_MAX = -4.0, 15.0
LATENT_BOUND = 0.5  # latents to act by are cut here: actions that the data hardly have lie behind the others


class ConditionalVAE(nn.Module):
    """Encodes an action to a Gaussian over latents, and decodes latents to what becomes an action by its tanh."""

    def __init__(self, obs: ObsSpec, action: ActionSpec, model: ModelConfig, hidden: Sequence[int]) -> None:
        super().__init__()
        self.latent_dim = 2 * action.dim
        self.encoder, features = make_encoder(obs, model)
        self.posterior = mlp(features + action.dim, 2 * self.latent_dim, model, hidden=hidden)
        self.decoder = mlp(features + self.latent_dim, action.dim, model, hidden=hidden)

    def forward(self, obs: Any, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The action as it is after encoding and decoding, and the mean and log deviation of its latents."""
        features = self.encoder(obs)
        mean, log_std = self.posterior(beside(features, action)).chunk(2, -1)
        log_std = log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)
        latent = mean + log_std.exp() * torch.randn(mean.shape, device=mean.device)
        return self.decoder(beside(features, latent)).tanh(), mean, log_std

    def decode(self, obs: Any, latent: Tensor) -> Tensor:
        """Actions before their tanh, one per latent: (B, ...), (B, n, L) -> (B, n, A), or (B, L) -> (B, A)."""
        return self.decoder(beside(self.encoder(obs), latent))

    def latents(self, *shape: int, device: torch.device | None = None) -> Tensor:
        """Standard normal latents, cut at 0.5."""
        return torch.randn(*shape, self.latent_dim, device=device).clamp(-LATENT_BOUND, LATENT_BOUND)
