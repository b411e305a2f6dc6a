"""Advantage-weighted regression (Peng et al. 2019, arXiv:1910.00177) on stored data: two regressions that take turns."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch import Tensor

from rl_training.agent import Q_VALUES_ONLY, Agent, Parts
from rl_training.algorithms.base import Batch
from rl_training.algorithms.labelled import LabelledConfig, ReturnWeighted, labelled_buffers
from rl_training.algorithms.momentum import Momentum
from rl_training.config import TrainConfig, setting
from rl_training.errors import ConfigError
from rl_training.models.cloning import ClippedGaussianPolicy, cloning_policy
from rl_training.models.critics import ScaledValueNet
from rl_training.models.policies import CategoricalPolicy
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class AWRConfig(LabelledConfig):
    gamma: float = setting(0.99, help="discount factor", ge=0, lt=1)
    td_lambda: float = setting(0.95, help="returns of the data, 1, or one reward and the value then, 0", ge=0, le=1)
    learning_rate: float = setting(1e-3, help="step size of the policy", gt=0)
    critic_learning_rate: float = setting(1e-2, help="step size of the value", gt=0)
    critic_steps: int = setting(200, help="updates of the value, which is held still for those of the policy that follow", ge=1)
    actor_steps: int = setting(1000, help="updates of the policy", ge=1)
    temperature: float = setting(1.0, help="standardized advantage that counts e times as much as none", gt=0)
    max_weight: float = setting(20.0, help="largest weight of an action in the policy's loss", gt=0)
    action_std: float = setting(0.4, help="deviation of continuous actions, which is not learned", gt=0)
    bound_coef: float = setting(10.0, help="cost of mean actions beyond the bounds", ge=0)


class AWRAlgorithm(ReturnWeighted):
    """A value that regresses to TD(lambda) returns, and a policy that clones with weights that these give."""

    critic: ScaledValueNet

    def __init__(
        self, config: AWRConfig, policy: CategoricalPolicy | ClippedGaussianPolicy, critic: ScaledValueNet
    ) -> None:
        super().__init__(policy, critic)
        self.config = config
        self.critic_optim = Momentum(self, ["critic"], config.critic_learning_rate)
        self.actor_optim = Momentum(self, ["policy.net"], config.learning_rate)  # without the deviation

    def schedule(self, n: int) -> dict[str, Hashable]:
        return {"actor": n % (self.config.critic_steps + self.config.actor_steps) >= self.config.critic_steps}

    def critic_loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        value = self.critic(batch["obs"])
        loss = 0.5 * ((batch["return"] - value) / self.critic.scale).square().mean()
        return loss, {"critic_loss": loss.detach(), "value": value.detach().mean()}

    def actor_loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        weight = (batch["advantage"] / self.config.temperature).exp().clamp(max=self.config.max_weight)
        outputs = self.policy.net(batch["obs"])
        log_prob, _ = self.policy.evaluate(outputs, batch["action"])
        loss = -(weight * log_prob).mean()
        out = {"actor_loss": loss.detach(), "actor_weight": weight.mean()}
        if isinstance(self.policy, ClippedGaussianPolicy):
            beyond = (outputs.abs() - 1.0).clamp(min=0.0)
            loss = loss + self.config.bound_coef * 0.5 * beyond.square().sum(-1).mean()
        return loss, out

    def update(self, batch: Batch, actor: Hashable = True, **static: Hashable) -> Batch:
        batch = self.normalized(batch)
        if actor:
            return self.actor_optim.minimize("actor_loss", batch)
        return self.critic_optim.minimize("critic_loss", batch)


def check_actions(c: AWRConfig, action: ActionSpec) -> None:
    """Refuse settings of continuous actions where there are none."""
    for name in ("action_std", "bound_coef") if action.kind != "continuous" else ():
        if getattr(c, name) != getattr(AWRConfig, name):
            raise ConfigError(
                f"algorithm.{name} = {getattr(c, name)} is for continuous actions; these are discrete.", fix=f"Leave out {name}"
            )


class AWR(Agent):
    """AWR on stored data. `AWR("Pendulum-v1", dataset="data/mixed", offline_updates=100_000).learn()`."""

    name = "awr"
    config_class = AWRConfig
    defaults: ClassVar[dict[str, Any]] = {
        "model.hidden": (128, 64), "model.activation": "relu", "model.normalize_obs": True, "total_steps": 0,
    }  # fmt: skip
    ignores = (*Q_VALUES_ONLY, "normalize_reward", "log_std_init")

    @classmethod
    def build(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Parts:
        c: AWRConfig = config.algorithm
        check_actions(c, action)
        model = replace(config.model, log_std_init=math.log(c.action_std)) if action.kind == "continuous" else config.model
        policy = cloning_policy(obs, action, model, squash=False, output_gain=0.01)
        critic = ScaledValueNet(obs, config.model, scale=1.0 / (1.0 - c.gamma))
        offline = labelled_buffers(
            config, obs, action, parts=(c.critic_steps, c.actor_steps), lam=c.td_lambda, standardize=True
        )
        return Parts(AWRAlgorithm(c, policy, critic), offline=offline)
