"""Extreme Q-learning (Garg et al. 2023, arXiv:2301.02328): IQL with a soft maximum over the stored actions for its expectile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from rl_training.algorithms.base import Batch
from rl_training.algorithms.iql import IQL, ImplicitConfig, IQLAlgorithm
from rl_training.config import ModelConfig, setting
from rl_training.models.mlp import normalized
from rl_training.objectives.gumbel import gumbel_loss
from rl_training.objectives.td import huber

HUBER = 20.0  # errors of critics count linearly beyond


@dataclass(frozen=True, kw_only=True)
class XQLConfig(ImplicitConfig):
    gumbel_beta: float = setting(1.0, help="softness of the maximum over the data's actions; large: their mean", gt=0)
    gumbel_clip: float = setting(7.0, help="how far, in units of gumbel_beta, an action may exceed its state's value", gt=0)
    value_steps: int = setting(1, help="steps of the state values per update, on one batch", ge=1)


class XQLAlgorithm(IQLAlgorithm):
    """State values by Gumbel regression, in one or several steps on a batch; critics by a Huber loss; IQL's actor."""

    config: XQLConfig

    def value_error(self, advantage: Tensor) -> Tensor:
        return gumbel_loss(advantage / self.config.gumbel_beta, self.config.gumbel_clip)

    def critic_error(self, td: Tensor) -> Tensor:
        return huber(td, HUBER)

    def fit_value(self, batch: Batch) -> Batch:
        for _ in range(self.config.value_steps):
            out = super().fit_value(batch)
        return out


class XQL(IQL):
    """XQL on stored data, and then online. `XQL("Pendulum-v1", dataset="data/mixed", offline_updates=100_000).learn()`."""

    name = "xql"
    config_class: ClassVar[type] = XQLConfig
    rule: ClassVar[type[IQLAlgorithm]] = XQLAlgorithm

    @classmethod
    def value_model(cls, model: ModelConfig) -> ModelConfig:
        return normalized(model)  # the clip has no gradient beyond it: values must stay near those of the actions
