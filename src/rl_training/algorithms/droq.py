"""DroQ (Hiraoka et al. 2022, arXiv:2110.02034): REDQ's sample efficiency from two critics with dropout and layer norm."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rl_training.algorithms.base import Algorithm
from rl_training.algorithms.redq import REDQ, REDQAlgorithm, REDQConfig, check_subset
from rl_training.algorithms.sac import SAC
from rl_training.config import TrainConfig, setting
from rl_training.models.critics import EnsembleCritic
from rl_training.models.policies import SquashedGaussianPolicy
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class DroQConfig(REDQConfig):
    members: int = setting(2, help="critics", ge=1)
    dropout: float = setting(0.01, help="share of hidden units that each pass of a critic leaves out", ge=0, lt=1)


class DroQ(SAC):
    """DroQ for continuous actions. `DroQ("Pendulum-v1", learning_starts=500).learn(5_000)`."""

    name = "droq"
    config_class = DroQConfig
    defaults = REDQ.defaults
    ignores = (*SAC.ignores, "block")

    @classmethod
    def rule(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec, target_entropy: float) -> Algorithm:
        c: DroQConfig = config.algorithm
        check_subset(c)
        policy = SquashedGaussianPolicy(obs, action, config.model)
        critic = EnsembleCritic(obs, action, replace(config.model, layer_norm=True), c.members, dropout=c.dropout)
        return REDQAlgorithm(c, policy, critic, target_entropy)
