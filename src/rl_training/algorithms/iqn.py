"""Implicit quantile networks (Dabney et al. 2018, arXiv:1806.06923): the return's quantiles, learned at random fractions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rl_training.algorithms.base import Batch
from rl_training.algorithms.dqn import DQN, DQNAlgorithm, DQNConfig, taken
from rl_training.config import TrainConfig, setting
from rl_training.models.q_nets import ImplicitNet, MeanOfQuantiles
from rl_training.objectives.quantile import quantile_huber
from rl_training.objectives.td import td_target
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class IQNConfig(DQNConfig):
    learning_rate: float = setting(5e-5, help="Adam step size", gt=0)
    adam_eps: float = setting(0.01 / 32, help="Adam's guard against division by zero", gt=0)
    double: bool = setting(False, help="choose the next action with the online network")
    samples: int = setting(64, help="fractions drawn per state for the prediction", ge=1)
    target_samples: int = setting(64, help="fractions drawn per next state for the target", ge=1)
    choice_samples: int = setting(32, help="fractions that an action's value is averaged over", ge=1)
    cosines: int = setting(64, help="features that embed a fraction", ge=1)
    kappa: float = setting(1.0, help="error up to which the quantile loss is quadratic", gt=0)


class IQNAlgorithm(DQNAlgorithm):
    """Quantile Huber loss at fractions drawn anew for every state, independently for prediction, target and choice of action."""

    def fractions(self, batch: Batch, count: int) -> Tensor:
        """Uniform in [0, 1], (B, count)."""
        return torch.rand(len(batch["reward"]), count, device=batch["reward"].device)

    def next_outputs(self, batch: Batch) -> Tensor:
        obs, c = batch["next_obs"], self.config
        outputs = self.target(obs, self.fractions(batch, c.target_samples))
        judge = self.policy.net if c.double else self.target
        judged = judge(obs, self.fractions(batch, c.choice_samples))
        return taken(outputs, self.policy.head(judged).argmax(-1))

    def loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        with torch.no_grad():
            reward, discount = batch["reward"].unsqueeze(-1), batch["discount"].unsqueeze(-1)
            target = td_target(reward, discount, self.next_outputs(batch))
        tau = self.fractions(batch, self.config.samples)
        quantiles = taken(self.policy.net(batch["obs"], tau), batch["action"])
        error = quantile_huber(quantiles, target, tau, self.config.kappa).mean(-1).sum(-1)
        loss = (batch["weight"] * error).mean()
        return loss, {"loss": loss.detach(), "q": quantiles.detach().mean(), "td": error.detach()}


class IQN(DQN):
    """IQN for discrete actions. `IQN("CartPole-v1", samples=8, target_samples=8).learn(50_000)`."""

    name = "iqn"
    config_class = IQNConfig
    rule = IQNAlgorithm

    @classmethod
    def networks(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> tuple[nn.Module, nn.Module]:
        c: IQNConfig = config.algorithm
        return ImplicitNet(obs, action, config.model, c.cosines, c.choice_samples), MeanOfQuantiles()
