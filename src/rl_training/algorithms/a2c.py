"""Advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783) in its synchronous form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from rl_training.agent import Q_VALUES_ONLY, Agent, Parts
from rl_training.algorithms.base import Batch
from rl_training.algorithms.rmsprop import RMSprop
from rl_training.algorithms.rollout import ActorCritic, RolloutConfig, actor_critic, rollout_parts
from rl_training.config import TrainConfig, setting
from rl_training.models.critics import ValueNet
from rl_training.models.policies import CategoricalPolicy, GaussianPolicy
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class A2CConfig(RolloutConfig):
    learning_rate: float = setting(7e-4, help="RMSprop step size", gt=0)
    num_steps: int = setting(5, help="env steps per environment and rollout", ge=1)
    gae_lambda: float = setting(1.0, help="bias-variance trade-off of the advantage; 1 is the rollout's return", ge=0, le=1)
    ent_coef: float = setting(0.0, help="weight of the entropy bonus", ge=0)
    vf_coef: float = setting(0.5, help="weight of the value loss", ge=0)
    max_grad_norm: float = setting(0.5, help="global gradient norm is clipped to this", gt=0)


class A2CAlgorithm(ActorCritic):
    """One gradient step on each short rollout: no reuse, no ratio, advantages as they are."""

    def __init__(self, config: A2CConfig, policy: CategoricalPolicy | GaussianPolicy, critic: ValueNet) -> None:
        super().__init__(policy, critic)
        self.config = config
        self.optim = RMSprop(self, ["policy", "critic"], config.learning_rate, max_norm=config.max_grad_norm)

    def anneal(self, progress: float) -> None:
        if self.config.anneal_lr:
            self.optim.lr.fill_(self.config.learning_rate * (1 - progress))

    def loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        log_prob, entropy = self.policy.evaluate(self.policy.net(batch["obs"]), batch["action"])
        policy_loss = -(batch["advantage"] * log_prob).mean()
        value_loss = (batch["return"] - self.critic(batch["obs"])).square().mean()
        entropy_loss = -entropy.mean()
        loss = policy_loss + self.config.vf_coef * value_loss + self.config.ent_coef * entropy_loss
        parts = {"loss": loss, "policy_loss": policy_loss, "value_loss": value_loss, "entropy_loss": entropy_loss}
        return loss, {k: v.detach() for k, v in parts.items()}

    def update(self, batch: Batch, **static: Any) -> Batch:
        return self.optim.minimize("loss", self.normalized(batch))


class A2C(Agent):
    """A2C for discrete, MultiDiscrete and continuous actions. `A2C("CartPole-v1").learn(100_000)`."""

    name = "a2c"
    config_class = A2CConfig
    defaults: ClassVar[dict[str, Any]] = {"env.num_envs": 8}
    ignores = Q_VALUES_ONLY

    @classmethod
    def build(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Parts:
        algorithm = A2CAlgorithm(config.algorithm, *actor_critic(obs, action, config.model))
        return rollout_parts(config, algorithm)
