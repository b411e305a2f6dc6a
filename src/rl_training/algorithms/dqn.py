"""Deep Q-learning (Mnih et al. 2015) with Double (van Hasselt 2016), Dueling, n-step, prioritized and noisy options."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rl_training.agent import Agent, Parts
from rl_training.algorithms.base import Algorithm, Batch
from rl_training.algorithms.optim import Optim, Target
from rl_training.algorithms.replay import ReplayConfig, replay_parts, updates_in
from rl_training.config import TrainConfig, setting
from rl_training.errors import ConfigError
from rl_training.models.policies import EpsilonGreedyPolicy
from rl_training.models.q_nets import q_net
from rl_training.objectives.td import huber, td_target
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class DQNConfig(ReplayConfig):
    learning_rate: float = setting(1e-4, help="Adam step size", gt=0)
    adam_eps: float = setting(1e-8, help="Adam's guard against division by zero", gt=0)
    batch_size: int = setting(32, help="transitions per update", ge=1)
    learning_starts: int = setting(100, help="env steps stored before the first update", ge=0)
    train_freq: int = setting(4, help="env steps between learning phases", ge=1)
    double: bool = setting(True, help="choose the next action with the online network")
    target_update_interval: int = setting(10_000, help="env steps between updates of the target network", ge=1)
    tau: float = setting(1.0, help="how far the target moves then; 1 copies", gt=0, le=1)
    epsilon_start: float = setting(1.0, help="probability of a random action at the start", ge=0, le=1)
    epsilon_final: float = setting(0.05, help="probability of a random action after exploration_fraction", ge=0, le=1)
    exploration_fraction: float = setting(0.1, help="part of training over which epsilon falls", gt=0, le=1)
    max_grad_norm: float = setting(10.0, help="global gradient norm is clipped to this", gt=0)


def taken(outputs: Tensor, action: Tensor) -> Tensor:
    """What a network gives for one action per row: (B, A, ...) -> (B, ...)."""
    index = action.view(-1, 1, *[1] * (outputs.ndim - 2)).expand(-1, 1, *outputs.shape[2:])
    return outputs.gather(1, index).squeeze(1)


class DQNAlgorithm(Algorithm):
    """Huber loss on targets from a network that follows from time to time."""

    policy: EpsilonGreedyPolicy

    def __init__(self, config: Any, policy: EpsilonGreedyPolicy, sync_every: int) -> None:
        super().__init__()
        self.config, self.policy, self.sync_every = config, policy, sync_every
        self.optim = Optim(
            self, ["policy.net"], config.learning_rate, max_norm=config.max_grad_norm, eps=config.adam_eps
        )
        self.target = Target(self, "policy.net", config.tau)

    def schedule(self, n: int) -> dict[str, Hashable]:
        return {"sync": (n + 1) % self.sync_every == 0}

    def next_outputs(self, batch: Batch) -> Tensor:
        """What the target network gives for the best next action, by its own judgement or (double) by the online network's."""
        outputs = self.target(batch["next_obs"])
        judge = self.policy.net(batch["next_obs"]) if self.config.double else outputs
        return taken(outputs, self.policy.head(judge).argmax(-1))

    def loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        return self.td_loss(self.policy.net(batch["obs"]), batch)

    def td_loss(self, outputs: Tensor, batch: Batch) -> tuple[Tensor, Batch]:
        """Of values (B, A) of all actions."""
        with torch.no_grad():
            target = td_target(batch["reward"], batch["discount"], self.next_outputs(batch))
        q = taken(outputs, batch["action"])
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
    config_class: ClassVar[type] = DQNConfig
    rule: ClassVar[type[DQNAlgorithm]] = DQNAlgorithm
    defaults: ClassVar[dict[str, Any]] = {"model.activation": "relu", "model.init": "default"}
    ignores = ("normalize_reward", "log_std_init")

    @classmethod
    def build(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Parts:
        c: DQNConfig = config.algorithm
        steps = round(c.exploration_fraction * config.total_steps)
        policy = EpsilonGreedyPolicy(obs, *cls.networks(config, obs, action), config.model, epsilon(config), steps)
        algorithm = cls.rule(c, policy, updates_in(c, c.target_update_interval))
        return replay_parts(config, obs, action, algorithm, random_start=False)

    @classmethod
    def networks(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> tuple[nn.Module, nn.Module]:
        """The network that is trained, and the head that makes action values of what it gives."""
        return q_net(obs, action, config.model), nn.Identity()


def epsilon(config: TrainConfig) -> tuple[float, float]:
    """First and last probability of random actions; noisy networks explore by themselves."""
    c: DQNConfig = config.algorithm
    if not config.model.noisy:
        return c.epsilon_start, c.epsilon_final
    for name in ("epsilon_start", "epsilon_final", "exploration_fraction"):
        usual = getattr(type(c)(), name)
        if getattr(c, name) != usual:
            raise ConfigError(
                f"algorithm.{name} has no meaning with model.noisy: noisy networks explore by themselves.",
                fix=f"Leave out noisy, or set --algorithm.{name.replace('_', '-')} {usual}, its default",
            )
    return 0.0, 0.0
