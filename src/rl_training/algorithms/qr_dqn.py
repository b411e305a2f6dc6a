"""Quantile regression DQN (Dabney et al. 2018, arXiv:1710.10044): the return's quantiles at fixed fractions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rl_training.algorithms.base import Batch
from rl_training.algorithms.dqn import DQN, DQNAlgorithm, DQNConfig, taken
from rl_training.config import TrainConfig, setting
from rl_training.models.q_nets import MeanOfQuantiles, q_net
from rl_training.objectives.quantile import quantile_huber
from rl_training.objectives.td import td_target
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class QRDQNConfig(DQNConfig):
    learning_rate: float = setting(5e-5, help="Adam step size", gt=0)
    adam_eps: float = setting(0.01 / 32, help="Adam's guard against division by zero", gt=0)
    double: bool = setting(False, help="choose the next action with the online network")
    quantiles: int = setting(200, help="quantiles of the return that are learned", ge=2)
    kappa: float = setting(1.0, help="error up to which the quantile loss is quadratic", gt=0)


class QRDQNAlgorithm(DQNAlgorithm):
    """Quantile Huber loss of every quantile against every target quantile."""

    tau: Tensor

    def __init__(self, config: QRDQNConfig, *parts: Any) -> None:
        super().__init__(config, *parts)
        self.register_buffer("tau", (torch.arange(config.quantiles) + 0.5) / config.quantiles, persistent=False)

    def loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        with torch.no_grad():
            reward, discount = batch["reward"].unsqueeze(-1), batch["discount"].unsqueeze(-1)
            target = td_target(reward, discount, self.next_outputs(batch))
        quantiles = taken(self.policy.net(batch["obs"]), batch["action"])
        # Summed over the predictions, averaged over the targets.
        error = quantile_huber(quantiles, target, self.tau, self.config.kappa).mean(-1).sum(-1)
        loss = (batch["weight"] * error).mean()
        return loss, {"loss": loss.detach(), "q": quantiles.detach().mean(), "td": error.detach()}


class QRDQN(DQN):
    """QR-DQN for discrete actions. `QRDQN("CartPole-v1", quantiles=51).learn(50_000)`."""

    name = "qr_dqn"
    config_class = QRDQNConfig
    rule = QRDQNAlgorithm

    @classmethod
    def networks(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> tuple[nn.Module, nn.Module]:
        return q_net(obs, action, config.model, config.algorithm.quantiles), MeanOfQuantiles()
