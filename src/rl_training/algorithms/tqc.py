"""Truncated quantile critics (Kuznetsov et al. 2020, arXiv:2005.04269): SAC on return distributions without their upper tail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rl_training.algorithms.base import Algorithm, Batch
from rl_training.algorithms.sac import SAC, SACAlgorithm, SACConfig
from rl_training.config import TrainConfig, setting
from rl_training.errors import ConfigError
from rl_training.models.critics import EnsembleCritic
from rl_training.models.policies import SquashedGaussianPolicy
from rl_training.objectives.quantile import quantile_huber
from rl_training.objectives.td import td_target
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class TQCConfig(SACConfig):
    members: int = setting(2, help="critics", ge=1)
    quantiles: int = setting(25, help="quantiles of the return that each critic gives", ge=2)
    drop: int = setting(2, help="largest quantiles left out of the target, per critic", ge=0)


class TQCAlgorithm(SACAlgorithm):
    """Quantile critics: the target pools the quantiles of all of them and leaves out the largest; the actor climbs the mean."""

    config: TQCConfig
    tau: Tensor

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        count = self.config.quantiles
        self.register_buffer("tau", (torch.arange(count) + 0.5) / count, persistent=False)

    def next_value(self, obs: Any) -> Tensor:
        """The kept quantiles of all target critics together, (B, kept), with the entropy to come."""
        c = self.config
        action, log_prob = self.policy.sample(obs)
        pooled = self.target(obs, action).movedim(0, 1).flatten(1).sort(-1).values
        return pooled[:, : c.members * (c.quantiles - c.drop)] - (self.log_alpha.exp() * log_prob).unsqueeze(-1)

    def critic_loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        with torch.no_grad():
            next_value = self.next_value(batch["next_obs"])
            target = td_target(batch["reward"].unsqueeze(-1), batch["discount"].unsqueeze(-1), next_value)
        quantiles = self.critic(batch["obs"], batch["action"])
        loss = (batch["weight"] * quantile_huber(quantiles, target, self.tau).mean((-1, -2))).mean()
        q = quantiles.detach().mean(-1)
        td = (q - target.mean(-1)).abs().mean(0)
        return loss, {"critic_loss": loss.detach(), "q": q.mean(), "td": td}

    def actor_value(self, obs: Any, action: Tensor) -> Tensor:
        return self.critic(obs, action).mean((0, -1))


class TQC(SAC):
    """TQC for continuous actions. `TQC("Pendulum-v1", learning_rate=1e-3).learn(20_000)`."""

    name = "tqc"
    config_class = TQCConfig

    @classmethod
    def rule(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec, target_entropy: float) -> Algorithm:
        c: TQCConfig = config.algorithm
        if c.drop >= c.quantiles:
            raise ConfigError(
                f"algorithm.drop = {c.drop} leaves none of algorithm.quantiles = {c.quantiles}.",
                fix=f"Set --algorithm.drop {min(2, c.quantiles - 1)}",
            )
        policy = SquashedGaussianPolicy(obs, action, config.model)
        critic = EnsembleCritic(obs, action, config.model, c.members, outputs=c.quantiles)
        return TQCAlgorithm(c, policy, critic, target_entropy)
