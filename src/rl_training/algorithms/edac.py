"""Ensemble-diversified actor-critic (An et al. 2021, arXiv:2110.01548): SAC-N with fewer critics, which must differ in slope."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rl_training.algorithms.base import Algorithm, Batch
from rl_training.algorithms.sac_n import SACN, SACNAlgorithm, SACNConfig
from rl_training.config import TrainConfig, setting
from rl_training.errors import ConfigError
from rl_training.objectives.ensemble import alignment
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class EDACConfig(SACNConfig):
    members: int = setting(10, help="critics; the smallest of their values counts, in the target and for the actor", ge=2)
    eta: float = setting(1.0, help="price of critics that rise in the same direction at the data's actions; 0 is SAC-N", ge=0)


class EDACAlgorithm(SACNAlgorithm):
    """SAC-N whose critics pay for slopes over actions that point the same way."""

    config: EDACConfig

    def slopes(self, batch: Batch) -> Tensor:
        """The gradient of every critic's value by the stored action, (members, B, A), through which gradients flow.

        Each critic has a copy of the actions, so that one gradient of the sum over critics holds them all. `func.grad` traces
        where a nested `autograd.grad` would not, and untraced it is as quick.
        """
        copies = batch["action"].expand(self.config.members, *batch["action"].shape)
        slopes: Tensor = torch.func.grad(lambda action: self.critic.of_each(batch["obs"], action).sum())(copies)
        return slopes

    def critic_loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        loss, out = super().critic_loss(batch)
        if not self.config.eta or batch["action"].shape[-1] == 1:  # of one dimension: there is rounding to learn from, no more
            return loss, out
        alike = alignment(self.slopes(batch))
        return loss + self.config.eta * alike, out | {"alignment": alike.detach()}


class EDAC(SACN):
    """EDAC on stored data. `EDAC("Pendulum-v1", dataset="data/mixed", offline_updates=100_000).learn()`."""

    name = "edac"
    config_class = EDACConfig
    algorithm_class = EDACAlgorithm

    @classmethod
    def rule(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec, target_entropy: float) -> Algorithm:
        eta = config.algorithm.eta
        if action.dim == 1 and eta != EDACConfig().eta:
            raise ConfigError(
                f"algorithm.eta = {eta} has no effect where actions have one dimension.",
                "The direction of a slope is a sign there, and no small step of the critics turns it: EDAC is SAC-N.",
                "Leave out eta, or use sac_n",
            )
        return super().rule(config, obs, action, target_entropy)
