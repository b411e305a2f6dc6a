"""Bootstrapping error accumulation reduction (Kumar et al. 2019, arXiv:1906.00949): an actor within the support of the data."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rl_training.agent import Q_VALUES_ONLY, Agent, Parts
from rl_training.algorithms.base import Batch
from rl_training.algorithms.optim import Optim
from rl_training.algorithms.replay import replay_parts
from rl_training.algorithms.supported import SupportedAlgorithm, SupportedConfig, check_candidates
from rl_training.config import TrainConfig, setting
from rl_training.models.candidates import CandidatePolicy, Candidates, GaussianActor
from rl_training.models.critics import EnsembleCritic
from rl_training.models.vae import ConditionalVAE
from rl_training.objectives.mmd import mmd
from rl_training.specs import ActionSpec, ObsSpec

LOG_ALPHA = (-5.0, 10.0)  # bounds of the logarithm of the price


@dataclass(frozen=True, kw_only=True)
class BEARConfig(SupportedConfig):
    learning_rate: float = setting(3e-4, help="Adam step size of critics and the model of the data's actions", gt=0)
    actor_learning_rate: float = setting(1e-4, help="Adam step size of the actor", gt=0)
    alpha_learning_rate: float = setting(1e-3, help="Adam step size of the price of leaving the support", gt=0)
    distance: float = setting(0.05, help="how far the actor may be from the data's actions, as their MMD", ge=0)
    kernel: str = setting("laplacian", help="kernel of the distance", choices=("laplacian", "gaussian"))
    sigma: float = setting(20.0, help="width of the kernel", gt=0)
    mmd_samples: int = setting(4, help="actions of each side that are compared in a state", ge=1)
    warm_start: int = setting(40_000, help="updates in which the actor only comes near the data's actions", ge=0)


class BEARAlgorithm(SupportedAlgorithm):
    """The actor climbs the smaller critic, and pays for its distance to the data's actions a price that rises while it is far."""

    def __init__(self, config: BEARConfig, policy: CandidatePolicy, vae: ConditionalVAE) -> None:
        super().__init__(config, policy)
        self.behaviour = vae
        self.log_alpha = nn.Parameter(torch.tensor(0.0))
        self.vae_optim = Optim(self, ["behaviour"], config.learning_rate)
        self.actor_optim = Optim(self, ["policy.net.actor"], config.actor_learning_rate)
        self.alpha_optim = Optim(self, ["log_alpha"], config.alpha_learning_rate)

    @property
    def vae(self) -> ConditionalVAE:
        return self.behaviour

    @property
    def actor(self) -> GaussianActor:
        actor: Any = self.policy.net.actor
        return actor

    def schedule(self, n: int) -> dict[str, Hashable]:
        return {"climbs": n >= self.config.warm_start}

    def noise(self, rows: int, count: int) -> Tensor:
        return torch.randn(rows, count, self.policy.net.noise.shape[-1], device=self.log_alpha.device)

    def next_actions(self, obs: Any, rows: int) -> Tensor:
        return self.actor(obs, self.noise(rows, self.config.next_actions))

    def actor_loss(self, batch: Batch, climbs: bool) -> tuple[Tensor, Batch]:
        c, rows = self.config, len(batch["reward"])
        with torch.no_grad():
            stored = self.vae.decode(batch["obs"], self.vae.latents(rows, c.mmd_samples, device=self.log_alpha.device))
        # Before the tanh: at the bounds it would make all actions alike.
        proposed = self.actor.before_tanh(batch["obs"], self.noise(rows, c.mmd_samples))
        distance = mmd(stored, proposed, c.kernel, c.sigma).mean()
        loss = self.log_alpha.exp().detach() * (distance - c.distance)
        if climbs:
            loss = loss - self.critic(batch["obs"], proposed[:, 0].tanh()).min(0).values.mean()
        return loss, {"actor_loss": loss.detach(), "mmd": distance.detach()}

    def alpha_loss(self, distance: Tensor) -> tuple[Tensor, Batch]:
        # Ascent on the price: it rises while the actor is further away than it may be.
        loss = -self.log_alpha.exp() * (distance - self.config.distance)
        return loss, {"alpha": self.log_alpha.detach().exp()}

    def update(self, batch: Batch, climbs: Hashable = True, **static: Hashable) -> Batch:
        batch = self.normalized(batch)
        out = self.vae_optim.minimize("vae_loss", batch)
        out |= self.critic_optim.minimize("critic_loss", batch)
        out |= self.actor_optim.minimize("actor_loss", batch, climbs)
        out |= self.alpha_optim.minimize("alpha_loss", out["mmd"])
        with torch.no_grad():
            self.alpha_optim.flat.clamp_(*LOG_ALPHA)
        self.critic_target.update()
        return out


class BEAR(Agent):
    """BEAR on stored data. `BEAR("Pendulum-v1", dataset="data/mixed", offline_updates=100_000).learn()`."""

    name = "bear"
    config_class = BEARConfig
    defaults: ClassVar[dict[str, Any]] = {
        "model.hidden": (256, 256), "model.activation": "relu", "model.init": "default", "total_steps": 0,
    }  # fmt: skip
    ignores = (*Q_VALUES_ONLY, "normalize_reward", "log_std_init")

    @classmethod
    def build(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Parts:
        c: BEARConfig = config.algorithm
        check_candidates(c)
        actor, critic = GaussianActor(obs, action, config.model), EnsembleCritic(obs, action, config.model, members=2)
        net = Candidates(actor, critic, torch.randn(c.candidates, action.dim))
        policy = CandidatePolicy(obs, config.model, net, c.next_actions)
        algorithm = BEARAlgorithm(c, policy, ConditionalVAE(obs, action, config.model, c.vae_hidden))
        return replay_parts(config, obs, action, algorithm)
