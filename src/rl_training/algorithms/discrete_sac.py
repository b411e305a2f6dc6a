"""Soft actor-critic for discrete actions (Christodoulou 2019, arXiv:1910.07207): expectations over actions are exact."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rl_training.agent import Q_VALUES_ONLY, Agent, Parts
from rl_training.algorithms.base import Algorithm, Batch
from rl_training.algorithms.optim import Optim, Target
from rl_training.algorithms.replay import ReplayConfig, replay_parts, updates_in
from rl_training.config import TrainConfig, setting
from rl_training.errors import ConfigError
from rl_training.models.critics import DiscreteCritic
from rl_training.models.policies import CategoricalPolicy
from rl_training.objectives.td import td_target
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class DiscreteSACConfig(ReplayConfig):
    learning_rate: float = setting(3e-4, help="Adam step size of actor, critics and temperature", gt=0)
    tau: float = setting(0.005, help="how far the target critics move; 1 copies", gt=0, le=1)
    target_update_interval: int = setting(1, help="env steps between moves of the target critics", ge=1)
    alpha: float = setting(1.0, help="initial entropy temperature", gt=0)
    learn_alpha: bool = setting(True, help="adapt the temperature to the target entropy")
    entropy_fraction: float = setting(0.5, help="entropy the policy is held to, as a part of the largest", ge=0, le=1)


class DiscreteSACAlgorithm(Algorithm):
    """Twin critics of all actions: values and losses are sums over actions, weighted by the policy, where SAC samples one."""

    policy: CategoricalPolicy

    def __init__(
        self, config: DiscreteSACConfig, policy: CategoricalPolicy, critic: DiscreteCritic, target_entropy: float, sync_every: int
    ) -> None:
        super().__init__()
        self.config, self.policy, self.critic = config, policy, critic
        self.target_entropy, self.sync_every = target_entropy, sync_every
        self.log_alpha = nn.Parameter(torch.tensor(math.log(config.alpha)))
        self.critic_optim = Optim(self, ["critic"], config.learning_rate)
        self.actor_optim = Optim(self, ["policy.net"], config.learning_rate)
        self.alpha_optim = Optim(self, ["log_alpha"], config.learning_rate)
        self.target = Target(self, "critic", config.tau)

    def schedule(self, n: int) -> dict[str, Hashable]:
        return {"sync": (n + 1) % self.sync_every == 0}

    def next_value(self, obs: Any) -> Tensor:
        """The soft value of successors: what policy and target critics expect, and the entropy to come."""
        log_pi = self.policy.net(obs).log_softmax(-1)
        soft_q = self.target(obs).min(0).values - self.log_alpha.exp() * log_pi
        return (log_pi.exp() * soft_q).sum(-1)

    def critic_loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        with torch.no_grad():
            target = td_target(batch["reward"], batch["discount"], self.next_value(batch["next_obs"]))
        q = self.critic.of_action(batch["obs"], batch["action"])
        td = q - target
        loss = (batch["weight"] * td.square()).mean(1).sum()
        return loss, {"critic_loss": loss.detach(), "q": q.detach().mean(), "td": td.detach().abs().mean(0)}

    def actor_loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        log_pi = self.policy.net(batch["obs"]).log_softmax(-1)
        with torch.no_grad():
            q = self.critic(batch["obs"]).min(0).values
        pi = log_pi.exp()
        loss = (pi * (self.log_alpha.exp().detach() * log_pi - q)).sum(-1).mean()
        return loss, {"actor_loss": loss.detach(), "entropy": -(pi * log_pi).detach().sum(-1).mean()}

    def alpha_loss(self, entropy: Tensor) -> tuple[Tensor, Batch]:
        # Entropy above the target makes the gradient positive, so the temperature falls.
        loss = self.log_alpha * (entropy - self.target_entropy)
        return loss, {"alpha": self.log_alpha.detach().exp()}

    def update(self, batch: Batch, sync: Hashable = True, **static: Hashable) -> Batch:
        batch = self.normalized(batch)
        out = self.critic_optim.minimize("critic_loss", batch)
        out |= self.actor_optim.minimize("actor_loss", batch)
        if self.config.learn_alpha:
            out |= self.alpha_optim.minimize("alpha_loss", out["entropy"])
        if sync:
            self.target.update()
        return out


class DiscreteSAC(Agent):
    """SAC for discrete actions. `DiscreteSAC("CartPole-v1", n_step=3).learn(50_000)`."""

    name = "discrete_sac"
    config_class = DiscreteSACConfig
    defaults: ClassVar[dict[str, Any]] = {"model.hidden": (256, 256), "model.activation": "relu", "model.init": "default"}
    ignores = (*Q_VALUES_ONLY, "normalize_reward", "log_std_init")

    @classmethod
    def build(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Parts:
        c: DiscreteSACConfig = config.algorithm
        if c.entropy_fraction != DiscreteSACConfig().entropy_fraction and not c.learn_alpha:
            raise ConfigError(
                f"algorithm.entropy_fraction = {c.entropy_fraction} has no effect while algorithm.learn_alpha is false.",
                fix="Leave out one of them",
            )
        policy, critic = CategoricalPolicy(obs, action, config.model), DiscreteCritic(obs, action, config.model, members=2)
        sync_every = updates_in(c, c.target_update_interval)
        algorithm = DiscreteSACAlgorithm(c, policy, critic, c.entropy_fraction * math.log(action.n), sync_every)
        return replay_parts(config, obs, action, algorithm)
