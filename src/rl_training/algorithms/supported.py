"""What BCQ and BEAR share: a model of the data's actions, and values by the best of several actions near it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rl_training.algorithms.base import Algorithm, Batch
from rl_training.algorithms.optim import Optim, Target
from rl_training.algorithms.replay import ReplayConfig
from rl_training.config import setting
from rl_training.errors import ConfigError
from rl_training.models.candidates import CandidatePolicy
from rl_training.models.critics import EnsembleCritic
from rl_training.models.vae import ConditionalVAE
from rl_training.objectives.ensemble import soft_clipped
from rl_training.objectives.td import td_target
from rl_training.objectives.vae import vae_loss


@dataclass(frozen=True, kw_only=True)
class SupportedConfig(ReplayConfig):
    tau: float = setting(0.005, help="how far the targets move per update", gt=0, le=1)
    pessimism: float = setting(0.75, help="share of the smaller critic in a target; the rest is the larger one's", ge=0, le=1)
    next_actions: int = setting(10, help="actions of each next state, the best of which counts; exploring tries as many", ge=1)
    candidates: int = setting(100, help="actions, the best of which is done", ge=1)
    vae_hidden: tuple[int, ...] = setting((750, 750), help="hidden layers of the model of the data's actions", ge=1)


def check_candidates(c: SupportedConfig) -> None:
    """Refuse to explore by more actions than there are."""
    if c.candidates < c.next_actions:
        raise ConfigError(
            f"algorithm.candidates = {c.candidates} is fewer than algorithm.next_actions = {c.next_actions}.",
            "Exploring takes the best of next_actions of the candidates.",
            f"Set --algorithm.candidates {c.next_actions} or more, or fewer next_actions",
        )


class SupportedAlgorithm(Algorithm):
    """The losses of critics and of the model of the data's actions; what proposes actions is a subclass's affair."""

    policy: CandidatePolicy

    def __init__(self, config: Any, policy: CandidatePolicy) -> None:
        super().__init__()
        self.config, self.policy = config, policy
        self.critic_optim = Optim(self, ["policy.net.critic"], config.learning_rate)
        self.critic_target = Target(self, "policy.net.critic", config.tau)

    @property
    def critic(self) -> EnsembleCritic:
        return self.policy.net.critic

    @property
    def vae(self) -> ConditionalVAE:
        raise NotImplementedError()

    def next_actions(self, obs: Any, rows: int) -> Tensor:
        """Actions to value a next state by, (B, n, A)."""
        raise NotImplementedError()

    def vae_loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        reconstruction, mean, log_std = self.vae(batch["obs"], batch["action"])
        loss = vae_loss(reconstruction, batch["action"], mean, log_std)
        return loss, {"vae_loss": loss.detach()}

    def critic_loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        with torch.no_grad():
            action = self.next_actions(batch["next_obs"], len(batch["reward"]))
            next_q = soft_clipped(self.critic_target.net.of_many(batch["next_obs"], action), self.config.pessimism)
            target = td_target(batch["reward"], batch["discount"], next_q.max(-1).values)
        q = self.critic(batch["obs"], batch["action"])
        td = q - target
        loss = (batch["weight"] * td.square()).mean(1).sum()
        return loss, {"critic_loss": loss.detach(), "q": q.detach().mean(), "td": td.detach().abs().mean(0)}
