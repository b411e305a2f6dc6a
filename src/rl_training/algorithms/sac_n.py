"""SAC-N (An et al. 2021, arXiv:2110.01548): SAC on stored data, held back by the smallest of many critics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from rl_training.algorithms.base import Algorithm, Batch
from rl_training.algorithms.sac import SAC, SACAlgorithm, SACConfig
from rl_training.config import TrainConfig, setting
from rl_training.models.critics import EnsembleCritic
from rl_training.models.mlp import start_near_zero
from rl_training.models.policies import SquashedGaussianPolicy
from rl_training.specs import ActionSpec, ObsSpec

FIRST_ACTIONS, FIRST_VALUES = 1e-3, 3e-3  # bounds of the output layers' first weights


@dataclass(frozen=True, kw_only=True)
class SACNConfig(SACConfig):
    members: int = setting(10, help="critics; the smallest of their values counts, in the target and for the actor", ge=1)


class SACNAlgorithm(SACAlgorithm):
    """SAC's losses, whose minimum runs over all critics. Temperature, actor, critics and targets move one after the other."""

    config: SACNConfig

    def update(self, batch: Batch, **static: Any) -> Batch:
        batch = self.normalized(batch)
        out: Batch = {}
        if self.config.learn_alpha:
            with torch.no_grad():
                entropy = -self.policy.sample(batch["obs"])[1].mean()
            out |= self.alpha_optim.minimize("alpha_loss", entropy)
        out |= self.actor_optim.minimize("actor_loss", batch)
        out |= self.critic_optim.minimize("critic_loss", batch)
        self.target.update()
        return out


class SACN(SAC):
    """SAC-N on stored data. `SACN("Pendulum-v1", dataset="data/mixed", offline_updates=100_000).learn()`."""

    name = "sac_n"
    config_class = SACNConfig
    algorithm_class: ClassVar[type[SACNAlgorithm]] = SACNAlgorithm
    defaults: ClassVar[dict[str, Any]] = SAC.defaults | {"model.hidden": (256, 256, 256), "total_steps": 0}

    @classmethod
    def rule(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec, target_entropy: float) -> Algorithm:
        c: SACNConfig = config.algorithm
        policy = SquashedGaussianPolicy(obs, action, config.model)
        critic = EnsembleCritic(obs, action, config.model, c.members)
        start_near_zero(policy.net, FIRST_ACTIONS)
        start_near_zero(critic.body, FIRST_VALUES)
        return cls.algorithm_class(c, policy, critic, target_entropy)
