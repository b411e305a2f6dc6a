"""Soft actor-critic with learned temperature (Haarnoja et al. 2018, arXiv:1812.05905)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rl_training.agent import Q_VALUES_ONLY, Agent, Parts
from rl_training.algorithms.base import Algorithm, Batch
from rl_training.algorithms.optim import Optim, Target
from rl_training.algorithms.replay import ContinuousReplayConfig, continuous_parts
from rl_training.config import TrainConfig, setting
from rl_training.data.storage import NO_EXTRAS
from rl_training.errors import ConfigError
from rl_training.models.critics import EnsembleCritic
from rl_training.models.policies import SquashedGaussianPolicy
from rl_training.objectives.td import td_target
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class SACConfig(ContinuousReplayConfig):
    learning_rate: float = setting(3e-4, help="Adam step size of actor, critics and temperature", gt=0)
    tau: float = setting(0.005, help="how far the target critics move per update", gt=0, le=1)
    alpha: float = setting(1.0, help="initial entropy temperature", gt=0)
    learn_alpha: bool = setting(True, help="adapt the temperature to the target entropy")
    target_entropy: float | None = setting(None, help="entropy the policy is held to; none: minus the action dimension")


class SACAlgorithm(Algorithm):
    """Twin critics with a soft target, a reparametrized actor, and a temperature held to a target entropy."""

    policy: SquashedGaussianPolicy

    def __init__(
        self, config: SACConfig, policy: SquashedGaussianPolicy, critic: EnsembleCritic, target_entropy: float
    ) -> None:
        super().__init__()
        self.config, self.policy, self.critic, self.target_entropy = config, policy, critic, target_entropy
        self.log_alpha = nn.Parameter(torch.tensor(math.log(config.alpha)))
        self.critic_optim = Optim(self, ["critic"], config.learning_rate)
        self.actor_optim = Optim(self, ["policy.net"], config.learning_rate)
        self.alpha_optim = Optim(self, ["log_alpha"], config.learning_rate)
        self.target = Target(self, "critic", config.tau)

    def next_value(self, obs: Any) -> Tensor:
        """The soft value of successors: what the target critics expect, and the entropy to come."""
        action, log_prob = self.policy.sample(obs)
        return self.target(obs, action).min(0).values - self.log_alpha.exp() * log_prob

    def critic_loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        return self.td_loss(self.critic(batch["obs"], batch["action"]), batch)

    def td_loss(self, q: Tensor, batch: Batch) -> tuple[Tensor, Batch]:
        """Of values (members, B) of the stored actions."""
        with torch.no_grad():
            target = td_target(batch["reward"], batch["discount"], self.next_value(batch["next_obs"]))
        td = q - target
        loss = (batch["weight"] * td.square()).mean(1).sum()
        return loss, {"critic_loss": loss.detach(), "q": q.detach().mean(), "td": td.detach().abs().mean(0)}

    def actor_value(self, obs: Any, action: Tensor) -> Tensor:
        """What the actor climbs, (B,)."""
        return self.critic(obs, action).min(0).values

    def actor_loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        action, log_prob = self.policy.sample(batch["obs"])
        q = self.actor_value(batch["obs"], action)
        loss = (self.log_alpha.exp().detach() * log_prob - q).mean()
        return loss, {"actor_loss": loss.detach(), "entropy": -log_prob.detach().mean()}

    def alpha_loss(self, entropy: Tensor) -> tuple[Tensor, Batch]:
        # Entropy above the target makes the gradient positive, so the temperature falls.
        loss = self.log_alpha * (entropy - self.target_entropy)
        return loss, {"alpha": self.log_alpha.detach().exp()}

    def update(self, batch: Batch, **static: Any) -> Batch:
        batch = self.normalized(batch)
        out = self.critic_optim.minimize("critic_loss", batch)
        out |= self.actor_optim.minimize("actor_loss", batch)
        if self.config.learn_alpha:
            out |= self.alpha_optim.minimize("alpha_loss", out["entropy"])
        self.target.update()
        return out


class SAC(Agent):
    """SAC for continuous actions. `SAC("Pendulum-v1", learning_rate=1e-3).learn(20_000)`."""

    name = "sac"
    config_class: ClassVar[type] = SACConfig
    defaults: ClassVar[dict[str, Any]] = {"model.hidden": (256, 256), "model.activation": "relu", "model.init": "default"}
    ignores: ClassVar[tuple[str, ...]] = (*Q_VALUES_ONLY, "normalize_reward", "log_std_init")
    entropy_per_action: ClassVar[float] = -1.0  # the target entropy that is not given, per action dimension
    extras: ClassVar[frozenset[str]] = NO_EXTRAS  # what batches hold besides the transitions

    @classmethod
    def build(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Parts:
        c = config.algorithm
        if c.target_entropy is not None and not c.learn_alpha:
            raise ConfigError(
                f"algorithm.target_entropy = {c.target_entropy} has no effect while algorithm.learn_alpha is false.",
                fix="Leave out one of them",
            )
        target_entropy = cls.entropy_per_action * action.dim if c.target_entropy is None else c.target_entropy
        return continuous_parts(config, obs, action, cls.rule(config, obs, action, target_entropy), cls.extras)

    @classmethod
    def rule(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec, target_entropy: float) -> Algorithm:
        """The learning rule with its networks."""
        policy = SquashedGaussianPolicy(obs, action, config.model)
        return SACAlgorithm(config.algorithm, policy, EnsembleCritic(obs, action, config.model, members=2), target_entropy)
