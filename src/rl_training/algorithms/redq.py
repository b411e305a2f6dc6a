"""Randomized ensembled double Q-learning (Chen et al. 2021, arXiv:2101.05982): many updates per step without overestimation."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from rl_training.algorithms.base import Algorithm, Batch
from rl_training.algorithms.sac import SAC, SACAlgorithm, SACConfig
from rl_training.config import TrainConfig, setting
from rl_training.errors import ConfigError
from rl_training.models.critics import EnsembleCritic
from rl_training.models.policies import SquashedGaussianPolicy
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class REDQConfig(SACConfig):
    learning_starts: int = setting(5_000, help="env steps of random actions stored before the first update", ge=0)
    gradient_steps: int = setting(20, help="updates per learning phase", ge=1)
    policy_delay: int = setting(20, help="critic updates per update of actor and temperature", ge=1)
    members: int = setting(10, help="critics", ge=1)
    subset: int = setting(2, help="critics, drawn anew for every update, whose smallest value is the target", ge=1)


class REDQAlgorithm(SACAlgorithm):
    """SAC with the target from a random few of many critics, and an actor that climbs the mean of all, every so many updates."""

    config: REDQConfig

    def schedule(self, n: int) -> dict[str, Hashable]:
        return {"actor": (n + 1) % self.config.policy_delay == 0}

    def next_value(self, obs: Any) -> Tensor:
        action, log_prob = self.policy.sample(obs)
        return self.pessimistic(obs, action) - self.log_alpha.exp() * log_prob

    def pessimistic(self, obs: Any, action: Tensor) -> Tensor:
        """The smallest target value of a random subset; only its members are computed."""
        members, subset = self.config.members, self.config.subset
        if subset == members:
            return self.target(obs, action).min(0).values
        drawn = torch.rand(members, device=action.device).topk(subset).indices
        return self.target.net.of(obs, action, drawn).min(0).values

    def actor_value(self, obs: Any, action: Tensor) -> Tensor:
        return self.critic(obs, action).mean(0)

    def update(self, batch: Batch, actor: Hashable = True, **static: Hashable) -> Batch:
        batch = self.normalized(batch)
        out = self.critic_optim.minimize("critic_loss", batch)
        if actor:
            out |= self.actor_optim.minimize("actor_loss", batch)
            if self.config.learn_alpha:
                out |= self.alpha_optim.minimize("alpha_loss", out["entropy"])
        self.target.update()
        return out


def check_subset(c: REDQConfig) -> None:
    """Refuse a subset that the ensemble does not have."""
    if c.subset > c.members:
        raise ConfigError(
            f"algorithm.subset = {c.subset} critics cannot be drawn from algorithm.members = {c.members}.",
            fix=f"Set --algorithm.subset {min(2, c.members)}, or more members",
        )


class REDQ(SAC):
    """REDQ for continuous actions. `REDQ("Pendulum-v1", learning_starts=500).learn(5_000)`."""

    name = "redq"
    config_class = REDQConfig
    defaults: ClassVar[dict[str, Any]] = SAC.defaults | {"model.init": "xavier"}

    @classmethod
    def rule(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec, target_entropy: float) -> Algorithm:
        c: REDQConfig = config.algorithm
        check_subset(c)
        policy = SquashedGaussianPolicy(obs, action, config.model)
        return REDQAlgorithm(c, policy, EnsembleCritic(obs, action, config.model, c.members), target_entropy)
