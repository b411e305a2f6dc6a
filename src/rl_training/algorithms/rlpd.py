"""RLPD (Ball et al. 2023, arXiv:2302.02948): online learning in which half of every batch is prior data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch import Tensor

from rl_training.algorithms.base import Algorithm
from rl_training.algorithms.redq import REDQ, REDQAlgorithm, REDQConfig, check_subset
from rl_training.algorithms.sac import SAC
from rl_training.config import TrainConfig, setting
from rl_training.models.critics import EnsembleCritic
from rl_training.models.policies import SquashedGaussianPolicy
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class RLPDConfig(REDQConfig):
    target_entropy: float | None = setting(None, help="entropy the policy is held to; none: minus half the action dimension")
    backup_entropy: bool = setting(True, help="count the entropy to come in the target")


class RLPDAlgorithm(REDQAlgorithm):
    """REDQ whose targets may leave out the entropy to come; which rows a batch holds is the buffer's affair."""

    config: RLPDConfig

    def next_value(self, obs: Any) -> Tensor:
        if self.config.backup_entropy:
            return super().next_value(obs)
        return self.pessimistic(obs, self.policy.sample(obs)[0])


class RLPD(SAC):
    """RLPD for continuous actions. `RLPD("MountainCarContinuous-v0", dataset="demonstrations").learn(3_000)`."""

    name = "rlpd"
    config_class = RLPDConfig
    defaults: ClassVar[dict[str, Any]] = REDQ.defaults | {"data.offline_fraction": 0.5}
    ignores = (*SAC.ignores, "block")
    entropy_per_action = -0.5

    @classmethod
    def rule(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec, target_entropy: float) -> Algorithm:
        c: RLPDConfig = config.algorithm
        check_subset(c)
        policy = SquashedGaussianPolicy(obs, action, config.model)
        critic = EnsembleCritic(obs, action, replace(config.model, layer_norm=True), c.members)
        return RLPDAlgorithm(c, policy, critic, target_entropy)
