"""Twin delayed deterministic policy gradient (Fujimoto et al. 2018, arXiv:1802.09477)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from rl_training.agent import Q_VALUES_ONLY, Agent, Parts
from rl_training.algorithms.base import Algorithm, Batch
from rl_training.algorithms.optim import Optim, Target
from rl_training.algorithms.replay import ContinuousReplayConfig, continuous_parts
from rl_training.algorithms.terms import BehaviorCloning
from rl_training.config import TrainConfig, setting
from rl_training.data.storage import NO_EXTRAS
from rl_training.models.critics import EnsembleCritic
from rl_training.models.policies import DeterministicPolicy
from rl_training.objectives.td import td_target
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class TD3Config(ContinuousReplayConfig):
    learning_rate: float = setting(3e-4, help="Adam step size of actor and critics", gt=0)
    tau: float = setting(0.005, help="how far the targets move at each actor update", gt=0, le=1)
    policy_delay: int = setting(2, help="critic updates per actor update", ge=1)
    exploration_noise: float = setting(0.1, help="deviation of the noise on actions while collecting", ge=0)
    target_noise: float = setting(0.2, help="deviation of the noise on target actions", ge=0)
    target_noise_clip: float = setting(0.5, help="target noise is clipped to this", ge=0)


class TD3Algorithm(Algorithm):
    """Clipped double critics, smoothed target actions, and a delayed actor; all targets move with the actor."""

    policy: DeterministicPolicy

    def __init__(
        self, config: TD3Config, policy: DeterministicPolicy, critic: EnsembleCritic, cloning: BehaviorCloning | None = None
    ) -> None:
        super().__init__()
        self.config, self.policy, self.critic, self.cloning = config, policy, critic, cloning
        self.critic_optim = Optim(self, ["critic"], config.learning_rate)
        self.actor_optim = Optim(self, ["policy.net"], config.learning_rate)
        self.critic_target = Target(self, "critic", config.tau)
        self.actor_target = Target(self, "policy.net", config.tau)

    def schedule(self, n: int) -> dict[str, Hashable]:
        return {"actor": (n + 1) % self.config.policy_delay == 0}

    def next_value(self, batch: Batch) -> Tensor:
        """What the target critics expect of successors."""
        return self.critic_target(batch["next_obs"], self.next_action(batch["next_obs"])).min(0).values

    def next_action(self, obs: Any) -> Tensor:
        """The target actor's, smoothed by noise."""
        c, action = self.config, self.actor_target(obs)
        noise = (c.target_noise * torch.randn_like(action)).clamp(-c.target_noise_clip, c.target_noise_clip)
        return (action + noise).clamp(-1, 1)

    def critic_loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        with torch.no_grad():
            target = td_target(batch["reward"], batch["discount"], self.next_value(batch))
        q = self.critic(batch["obs"], batch["action"])
        td = q - target
        loss = (batch["weight"] * td.square()).mean(1).sum()
        return loss, {"critic_loss": loss.detach(), "q": q.detach().mean(), "td": td.detach().abs().mean(0)}

    def actor_loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        action = self.policy.net(batch["obs"])
        q = self.critic.first(batch["obs"], action)
        loss = -q.mean() if self.cloning is None else self.cloning(q, action, batch["action"])
        return loss, {"actor_loss": loss.detach()}

    def update(self, batch: Batch, actor: Hashable = True, **static: Hashable) -> Batch:
        batch = self.normalized(batch)
        out = self.critic_optim.minimize("critic_loss", batch)
        if actor:
            out |= self.actor_optim.minimize("actor_loss", batch)
            self.critic_target.update()
            self.actor_target.update()
        return out


class TD3(Agent):
    """TD3 for continuous actions. `TD3("Pendulum-v1", learning_rate=1e-3).learn(20_000)`."""

    name = "td3"
    config_class: ClassVar[type] = TD3Config
    defaults: ClassVar[dict[str, Any]] = {"model.hidden": (256, 256), "model.activation": "relu", "model.init": "default"}
    ignores = (*Q_VALUES_ONLY, "normalize_reward", "log_std_init")
    extras: ClassVar[frozenset[str]] = NO_EXTRAS  # what batches hold besides the transitions

    @classmethod
    def build(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Parts:
        return continuous_parts(config, obs, action, cls.rule(config, obs, action), cls.extras)

    @classmethod
    def rule(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Algorithm:
        """The learning rule with its networks."""
        c: TD3Config = config.algorithm
        policy = DeterministicPolicy(obs, action, config.model, c.exploration_noise)
        return TD3Algorithm(c, policy, EnsembleCritic(obs, action, config.model, members=2), cls.cloning(config))

    @classmethod
    def cloning(cls, config: TrainConfig) -> BehaviorCloning | None:
        """The term that keeps the actor near stored data; online TD3 has none."""
        return None
