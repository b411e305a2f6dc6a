"""Deep Q-learning (Mnih et al. 2015) with Double (van Hasselt 2016), Dueling, n-step and prioritized options."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from rl_training.agent import Agent, Parts
from rl_training.algorithms.base import Algorithm, Batch
from rl_training.algorithms.optim import Optim, Target
from rl_training.algorithms.replay import ReplayConfig, replay_buffer
from rl_training.config import TrainConfig, setting
from rl_training.models.critics import q_net
from rl_training.models.policies import EpsilonGreedyPolicy
from rl_training.objectives.td import huber, td_target
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class DQNConfig(ReplayConfig):
    learning_rate: float = setting(1e-4, help="Adam step size", gt=0)
    batch_size: int = setting(32, help="transitions per update", ge=1)
    learning_starts: int = setting(100, help="env steps stored before the first update", ge=0)
    train_freq: int = setting(4, help="env steps between learning phases", ge=1)
    double: bool = setting(True, help="choose the next action with the online network")
    target_update_interval: int = setting(10_000, help="env steps between copies to the target network", ge=1)
    epsilon_start: float = setting(1.0, help="probability of a random action at the start", ge=0, le=1)
    epsilon_final: float = setting(0.05, help="probability of a random action after exploration_fraction", ge=0, le=1)
    exploration_fraction: float = setting(0.1, help="part of training over which epsilon falls", gt=0, le=1)
    max_grad_norm: float = setting(10.0, help="global gradient norm is clipped to this", gt=0)


class DQNAlgorithm(Algorithm):
    """Huber loss on one-step (or n-step) targets from a periodically copied network."""

    def __init__(self, config: DQNConfig, policy: EpsilonGreedyPolicy, sync_every: int) -> None:
        super().__init__()
        self.config, self.policy, self.sync_every = config, policy, sync_every
        self.optim = Optim(self, ["policy.net"], config.learning_rate, max_norm=config.max_grad_norm)
        self.target = Target(self, "policy.net", tau=1.0)

    def schedule(self, n: int) -> dict[str, Hashable]:
        return {"sync": (n + 1) % self.sync_every == 0}

    def loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        with torch.no_grad():
            next_q = self.target(batch["next_obs"])
            chooser = self.policy.net(batch["next_obs"]) if self.config.double else next_q
            next_value = next_q.gather(-1, chooser.argmax(-1, keepdim=True)).squeeze(-1)
            target = td_target(batch["reward"], batch["discount"], next_value)
        q = self.policy.net(batch["obs"]).gather(-1, batch["action"].unsqueeze(-1)).squeeze(-1)
        td = q - target
        loss = (batch["weight"] * huber(td)).mean()
        return loss, {"loss": loss.detach(), "q": q.detach().mean(), "td": td.detach()}

    def update(self, batch: Batch, sync: Hashable = False, **static: Hashable) -> Batch:
        out = self.optim.minimize("loss", self.normalized(batch))
        if sync:
            self.target.update()
        return out


class DQN(Agent):
    """DQN for discrete actions. `DQN("CartPole-v1", n_step=3).learn(50_000)`."""

    name = "dqn"
    config_class = DQNConfig
    defaults: ClassVar[dict[str, Any]] = {"model.activation": "relu", "model.init": "default"}
    ignores = ("normalize_reward", "log_std_init")

    @classmethod
    def build(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Parts:
        c: DQNConfig = config.algorithm
        policy = EpsilonGreedyPolicy(
            obs, q_net(obs, action, config.model), config.model, (c.epsilon_start, c.epsilon_final),
            round(c.exploration_fraction * config.total_steps),
        )  # fmt: skip
        sync_every = max(1, round(c.target_update_interval * c.gradient_steps / c.train_freq))
        algorithm = DQNAlgorithm(c, policy, sync_every)
        return Parts(algorithm, replay_buffer(config, obs, action), collect=max(1, c.train_freq // config.env.num_envs))
