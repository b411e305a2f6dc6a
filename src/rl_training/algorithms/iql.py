"""Implicit Q-learning (Kostrikov et al. 2022, arXiv:2110.06169): never asks for the value of an action that is not stored."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from rl_training.agent import Q_VALUES_ONLY, Agent, Parts
from rl_training.algorithms.base import Algorithm, Batch
from rl_training.algorithms.optim import Optim, Target
from rl_training.algorithms.replay import ReplayConfig, replay_parts
from rl_training.config import ModelConfig, TrainConfig, setting
from rl_training.models.cloning import ClippedGaussianPolicy, cloning_policy
from rl_training.models.critics import DiscreteCritic, EnsembleCritic, ValueNet, action_critic
from rl_training.models.policies import CategoricalPolicy
from rl_training.objectives.expectile import expectile_loss
from rl_training.objectives.td import td_target
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class ImplicitConfig(ReplayConfig):
    """Of all that value states by the stored actions alone."""

    learning_rate: float = setting(3e-4, help="Adam step size of actor, critics and value", gt=0)
    actor_schedule: str = setting(
        "auto", help="the actor's step size: falling to 0 along a cosine, or constant; auto: constant if env steps follow",
        choices=("auto", "cosine", "constant"),
    )  # fmt: skip
    tau: float = setting(0.005, help="how far the target critics move per update", gt=0, le=1)
    beta: float = setting(3.0, help="how much the actor prefers actions of high advantage; 0 clones", ge=0)
    max_weight: float = setting(100.0, help="largest weight of an action in the actor's loss", gt=0)


@dataclass(frozen=True, kw_only=True)
class IQLConfig(ImplicitConfig):
    expectile: float = setting(0.7, help="0.5 values states by the mean of the data's actions, 1 by the best of them", gt=0, lt=1)


class IQLAlgorithm(Algorithm):
    """State values from an expectile of target critics, critics from state values, and an actor that clones good actions."""

    policy: CategoricalPolicy | ClippedGaussianPolicy

    def __init__(
        self,
        config: Any,
        policy: CategoricalPolicy | ClippedGaussianPolicy,
        critic: EnsembleCritic | DiscreteCritic,
        value: ValueNet,
        fine_tunes: bool,
    ) -> None:
        super().__init__()
        self.config, self.policy, self.critic, self.value = config, policy, critic, value
        self.annealed = config.actor_schedule == "cosine" or (config.actor_schedule == "auto" and not fine_tunes)
        self.value_optim = Optim(self, ["value"], config.learning_rate)
        self.actor_optim = Optim(self, ["policy"], config.learning_rate)
        self.critic_optim = Optim(self, ["critic"], config.learning_rate)
        self.target = Target(self, "critic", config.tau)

    def anneal(self, progress: float) -> None:
        if self.annealed:
            self.actor_optim.lr.fill_(self.config.learning_rate * 0.5 * (1 + math.cos(math.pi * progress)))

    def value_error(self, advantage: Tensor) -> Tensor:
        """How much it counts that a stored action is worth so much more than its state, (B,)."""
        return expectile_loss(advantage, self.config.expectile)

    def critic_error(self, td: Tensor) -> Tensor:
        """The same for temporal-difference errors, elementwise."""
        return td.square()

    def value_loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        value = self.value(batch["obs"])
        loss = (batch["weight"] * self.value_error(batch["target_q"] - value)).mean()
        return loss, {"value_loss": loss.detach(), "value": value.detach().mean()}

    def actor_loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        with torch.no_grad():
            advantage = batch["target_q"] - self.value(batch["obs"])
            weight = (self.config.beta * advantage).exp().clamp(max=self.config.max_weight)
        log_prob = self.policy.log_prob(batch["obs"], batch["action"])
        loss = -(weight * log_prob).mean()
        return loss, {"actor_loss": loss.detach(), "advantage": advantage.mean(), "actor_weight": weight.mean()}

    def critic_loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        with torch.no_grad():
            target = td_target(batch["reward"], batch["discount"], self.value(batch["next_obs"]))
        q = self.critic.of_action(batch["obs"], batch["action"])
        td = q - target
        loss = (batch["weight"] * self.critic_error(td)).mean(1).sum()
        return loss, {"critic_loss": loss.detach(), "q": q.detach().mean(), "td": td.detach().abs().mean(0)}

    def fit_value(self, batch: Batch) -> Batch:
        return self.value_optim.minimize("value_loss", batch)

    def update(self, batch: Batch, **static: Any) -> Batch:
        batch = self.normalized(batch)
        with torch.no_grad():
            batch = batch | {"target_q": self.target.net.of_action(batch["obs"], batch["action"]).min(0).values}
        out = self.fit_value(batch)  # first: actor and critics use the new values
        out |= self.actor_optim.minimize("actor_loss", batch)
        out |= self.critic_optim.minimize("critic_loss", batch)
        self.target.update()
        return out


class IQL(Agent):
    """IQL on stored data, and then online. `IQL("Pendulum-v1", dataset="data/mixed", offline_updates=100_000).learn()`."""

    name = "iql"
    config_class: ClassVar[type] = IQLConfig
    rule: ClassVar[type[IQLAlgorithm]] = IQLAlgorithm
    defaults: ClassVar[dict[str, Any]] = {"model.hidden": (256, 256), "model.activation": "relu", "total_steps": 0}
    ignores: ClassVar[tuple[str, ...]] = (*Q_VALUES_ONLY, "normalize_reward")

    @classmethod
    def build(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Parts:
        policy = cloning_policy(obs, action, config.model, output_gain=math.sqrt(2.0))
        critic, value = action_critic(obs, action, config.model, members=2), ValueNet(obs, cls.value_model(config.model))
        algorithm = cls.rule(config.algorithm, policy, critic, value, fine_tunes=config.total_steps > 0)
        return replay_parts(config, obs, action, algorithm)

    @classmethod
    def value_model(cls, model: ModelConfig) -> ModelConfig:
        """What the network of state values is like."""
        return model
