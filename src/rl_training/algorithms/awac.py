"""Advantage-weighted actor-critic (Nair et al. 2020, arXiv:2006.09359): one rule for stored data and for env steps after them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from rl_training.agent import Q_VALUES_ONLY, Agent, Parts
from rl_training.algorithms.base import Algorithm, Batch
from rl_training.algorithms.optim import Optim, Target
from rl_training.algorithms.replay import ReplayConfig, replay_parts
from rl_training.config import TrainConfig, setting
from rl_training.models.cloning import ClippedGaussianPolicy
from rl_training.models.critics import EnsembleCritic
from rl_training.objectives.td import td_target
from rl_training.specs import ActionSpec, ObsSpec

LOG_STD_BOUNDS = (-6.0, 2.0)


@dataclass(frozen=True, kw_only=True)
class AWACConfig(ReplayConfig):
    learning_rate: float = setting(3e-4, help="Adam step size of actor and critics", gt=0)
    tau: float = setting(0.005, help="how far the target critics move per update", gt=0, le=1)
    temperature: float = setting(1 / 3, help="advantage that counts e times as much as none; large values clone", gt=0)
    max_weight: float = setting(100.0, help="largest weight of an action in the actor's loss", gt=0)


class WeightedCloning(Algorithm):
    """Critics of what the policy does, and a policy that clones the stored actions, each with the weight that critics give it."""

    policy: ClippedGaussianPolicy

    def __init__(self, policy: ClippedGaussianPolicy, critic: EnsembleCritic, learning_rate: float, tau: float) -> None:
        super().__init__()
        self.policy, self.critic = policy, critic
        self.critic_optim = Optim(self, ["critic"], learning_rate)
        self.actor_optim = Optim(self, ["policy"], learning_rate)
        self.target = Target(self, "critic", tau)

    def next_action(self, obs: Any) -> Tensor:
        """What is done in successors."""
        return self.policy.sample(obs)

    def baseline(self, obs: Any) -> Tensor:
        """What the policy is worth, (B,)."""
        raise NotImplementedError()

    def weight(self, advantage: Tensor) -> Tensor:
        """How much an action counts that is better than the baseline by so much."""
        raise NotImplementedError()

    def weighted(self, batch: Batch) -> Batch:
        """The batch with the advantage of its actions and the weights that follow."""
        with torch.no_grad():
            advantage = self.critic(batch["obs"], batch["action"]).min(0).values - self.baseline(batch["obs"])
            return batch | {"advantage": advantage, "actor_weight": self.weight(advantage)}

    def critic_loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        with torch.no_grad():
            next_q = self.target(batch["next_obs"], self.next_action(batch["next_obs"])).min(0).values
            target = td_target(batch["reward"], batch["discount"], next_q)
        q = self.critic(batch["obs"], batch["action"])
        td = q - target
        loss = (batch["weight"] * td.square()).mean(1).sum()
        return loss, {"critic_loss": loss.detach(), "q": q.detach().mean(), "td": td.detach().abs().mean(0)}

    def actor_loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        weight, log_prob = batch["actor_weight"], self.policy.log_prob(batch["obs"], batch["action"])
        loss = -(weight * log_prob).mean()
        return loss, {"actor_loss": loss.detach(), "advantage": batch["advantage"].mean(), "actor_weight": weight.mean()}


class AWACAlgorithm(WeightedCloning):
    """Weights that grow exponentially with the advantage, by critics that have just been updated."""

    def __init__(self, config: AWACConfig, policy: ClippedGaussianPolicy, critic: EnsembleCritic) -> None:
        super().__init__(policy, critic, config.learning_rate, config.tau)
        self.config = config

    def baseline(self, obs: Any) -> Tensor:
        return self.critic(obs, self.policy.sample(obs)).min(0).values

    def weight(self, advantage: Tensor) -> Tensor:
        return (advantage / self.config.temperature).exp().clamp(max=self.config.max_weight)

    def update(self, batch: Batch, **static: Any) -> Batch:
        batch = self.normalized(batch)
        out = self.critic_optim.minimize("critic_loss", batch)
        out |= self.actor_optim.minimize("actor_loss", self.weighted(batch))
        self.target.update()
        return out


class AWAC(Agent):
    """AWAC on stored data, and then online. `AWAC("Pendulum-v1", dataset="data/mixed", offline_updates=100_000).learn()`."""

    name = "awac"
    config_class = AWACConfig
    defaults: ClassVar[dict[str, Any]] = {
        "model.hidden": (256, 256, 256), "model.activation": "relu", "model.init": "default", "model.normalize_obs": True,
        "total_steps": 0,
    }  # fmt: skip
    ignores = (*Q_VALUES_ONLY, "normalize_reward")

    @classmethod
    def build(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Parts:
        # The mean is no tanh: it may leave [-1, 1], where samples are clipped, so that actions at the bounds can be certain.
        policy = ClippedGaussianPolicy(obs, action, config.model, squash=False, log_std_bounds=LOG_STD_BOUNDS)
        algorithm = AWACAlgorithm(config.algorithm, policy, EnsembleCritic(obs, action, config.model, members=2))
        return replay_parts(config, obs, action, algorithm)
