"""Acting by the best of many actions: an actor turns noise into candidates, and a critic chooses."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rl_training.config import ModelConfig
from rl_training.models.critics import EnsembleCritic
from rl_training.models.encoders import beside, make_encoder
from rl_training.models.mlp import mlp
from rl_training.models.policies import LOG_STD_MAX, LOG_STD_MIN, Array, Policy
from rl_training.models.vae import ConditionalVAE
from rl_training.specs import ActionSpec, ObsSpec


class Perturbation(nn.Module):
    """a -> a + size * tanh(net(s, a)), clipped to [-1, 1]."""

    def __init__(self, obs: ObsSpec, action: ActionSpec, model: ModelConfig, size: float) -> None:
        super().__init__()
        self.size = size
        self.encoder, features = make_encoder(obs, model)
        self.body = mlp(features + action.dim, action.dim, model)

    def forward(self, obs: Any, action: Tensor) -> Tensor:
        nudge = self.body(beside(self.encoder(obs), action)).tanh()
        return (action + self.size * nudge).clamp(-1.0, 1.0)


class PerturbedActor(nn.Module):
    """Latents (B, n, L) to actions (B, n, A): what the data's model decodes, nudged."""

    def __init__(self, vae: ConditionalVAE, perturbation: Perturbation) -> None:
        super().__init__()
        self.vae, self.perturbation = vae, perturbation

    def forward(self, obs: Any, latent: Tensor) -> Tensor:
        return self.perturbation(obs, self.vae.decode(obs, latent).tanh())


class GaussianActor(nn.Module):
    """Standard normal noise (B, n, A) to actions (B, n, A): the tanh of a Gaussian with state-dependent deviation."""

    def __init__(self, obs: ObsSpec, action: ActionSpec, model: ModelConfig) -> None:
        super().__init__()
        encoder, features = make_encoder(obs, model)
        self.body = nn.Sequential(encoder, *mlp(features, 2 * action.dim, model))

    def before_tanh(self, obs: Any, noise: Tensor) -> Tensor:
        mean, log_std = self.body(obs).unsqueeze(1).chunk(2, -1)
        return mean + log_std.clamp(LOG_STD_MIN, LOG_STD_MAX).exp() * noise

    def forward(self, obs: Any, noise: Tensor) -> Tensor:
        return self.before_tanh(obs, noise).tanh()


class Candidates(nn.Module):
    """(B, ...) -> (B, n, A + 1): n actions for each state, and after each what the first critic takes it to be worth.

    The noise is drawn once and kept with the weights, so that the greedy action is a function of the state.
    """

    noise: Tensor

    def __init__(self, actor: PerturbedActor | GaussianActor, critic: EnsembleCritic, noise: Tensor) -> None:
        super().__init__()
        self.actor, self.critic = actor, critic
        self.register_buffer("noise", noise)

    def forward(self, obs: Any) -> Tensor:
        rows = len(next(iter(obs.values())) if isinstance(obs, dict) else obs)
        action = self.actor(obs, self.noise.expand(rows, *self.noise.shape))
        return torch.cat([action, self.critic.of_many(obs, action, slice(1))[0].unsqueeze(-1)], -1)


class CandidatePolicy(Policy):
    """The best of all candidates; while exploring, the best of a `few` of them, which are drawn anew for every state."""

    net: Candidates

    def __init__(self, obs: ObsSpec, model: ModelConfig, net: Candidates, few: int) -> None:
        super().__init__(obs, model)
        self.net, self.few = net, few

    def choose(self, outputs: Array, rng: np.random.Generator, step: int, explore: bool) -> Array:
        if explore:
            drawn = rng.random(outputs.shape[:2]).argpartition(self.few - 1, axis=1)[:, : self.few]
            outputs = np.take_along_axis(outputs, drawn[..., None], 1)
        best = outputs[..., -1].argmax(1)
        return outputs[np.arange(len(outputs)), best, :-1]
