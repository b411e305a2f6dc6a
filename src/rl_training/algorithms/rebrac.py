"""ReBRAC, TD3+BC revisited (Tarasov et al. 2023, arXiv:2305.09836): cloning counts in the critics' targets as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rl_training.algorithms.base import Algorithm, Batch
from rl_training.algorithms.td3 import TD3, TD3Algorithm, TD3Config
from rl_training.config import TrainConfig, setting
from rl_training.data.extras import NEXT_ACTION
from rl_training.errors import ConfigError
from rl_training.models.critics import EnsembleCritic
from rl_training.models.mlp import normalized
from rl_training.models.policies import DeterministicPolicy
from rl_training.specs import ActionSpec, ObsSpec

HIDDEN_BIAS, CRITIC_OUTPUT, ACTOR_OUTPUT = 0.1, 3e-3, 1e-3  # how networks start


@dataclass(frozen=True, kw_only=True)
class ReBRACConfig(TD3Config):
    batch_size: int = setting(1024, help="transitions per update", ge=1)
    learning_rate: float = setting(1e-3, help="Adam step size of actor and critics", gt=0)
    actor_learning_rate: float | None = setting(None, help="Adam step size of the actor; none: learning_rate", gt=0)
    actor_bc: float = setting(0.01, help="weight of cloning against the normalized Q term, for the actor", ge=0)
    critic_bc: float = setting(0.01, help="how much actions unlike the data's lower the critics' targets; offline only", ge=0)


class ReBRACAlgorithm(TD3Algorithm):
    """TD3 with targets lowered by how far the next action is from the stored one, and an actor that pays for its own distance.

    With env steps, which begin at `online_from` of the progress, the critics' part is off and the actor's falls to a half.
    """

    config: ReBRACConfig
    actor_bc: Tensor
    critic_bc: Tensor

    def __init__(self, config: ReBRACConfig, policy: DeterministicPolicy, critic: EnsembleCritic, online_from: float) -> None:
        super().__init__(config, policy, critic)
        if config.actor_learning_rate is not None:
            self.actor_optim.lr.fill_(config.actor_learning_rate)
        self.online_from = online_from
        self.register_buffer("actor_bc", torch.tensor(config.actor_bc))
        self.register_buffer("critic_bc", torch.tensor(config.critic_bc))

    def anneal(self, progress: float) -> None:
        online = progress >= self.online_from
        done = (progress - self.online_from) / (1.0 - self.online_from) if online else 0.0
        self.actor_bc.fill_(self.config.actor_bc * (1.0 - 0.5 * done))
        self.critic_bc.fill_(0.0 if online else self.config.critic_bc)

    def next_value(self, batch: Batch) -> Tensor:
        action = self.next_action(batch["next_obs"])
        distance = (action - batch["next_action"]).square().sum(-1)
        q = self.critic_target(batch["next_obs"], action).min(0).values
        return q - self.critic_bc * batch["next_action_known"] * distance

    def actor_loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        action = self.policy.net(batch["obs"])
        q = self.critic(batch["obs"], action).min(0).values
        distance = (action - batch["action"]).square().sum(-1)
        loss = (self.actor_bc * distance - q / q.detach().abs().mean()).mean()
        return loss, {"actor_loss": loss.detach(), "distance": distance.detach().mean()}


class ReBRAC(TD3):
    """ReBRAC on stored data, then online. `ReBRAC("Pendulum-v1", dataset="data/mixed", offline_updates=100_000).learn()`."""

    name = "rebrac"
    config_class = ReBRACConfig
    defaults: ClassVar[dict[str, Any]] = TD3.defaults | {
        "model.hidden": (256, 256, 256), "total_steps": 0, "data.offline_fraction": 0.5
    }  # fmt: skip
    extras: ClassVar[frozenset[str]] = frozenset({NEXT_ACTION})

    @classmethod
    def rule(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Algorithm:
        c: ReBRACConfig = config.algorithm
        if c.critic_bc != ReBRACConfig.critic_bc and config.total_steps and not config.offline_updates:
            raise ConfigError(
                f"algorithm.critic_bc = {c.critic_bc} has no effect without offline_updates: with env steps it is off.",
                fix="Leave it out, or give --offline-updates",
            )
        policy: Any = DeterministicPolicy(obs, action, config.model, c.exploration_noise)
        critic = EnsembleCritic(obs, action, normalized(config.model), members=2, norm_last=True)
        start_small(policy.net[1:], ACTOR_OUTPUT)  # not the encoder
        start_small(critic.body, CRITIC_OUTPUT)
        length = config.offline_updates + config.total_steps
        return ReBRACAlgorithm(c, policy, critic, config.offline_updates / length if config.total_steps else 1.0)


def start_small(net: nn.Module, output: float) -> None:
    """Biases of hidden layers at 0.1 and outputs near 0: what comes first then matters little."""
    layers: list[Any] = [layer for layer in net.modules() if "Linear" in type(layer).__name__]
    for layer in layers[:-1]:
        nn.init.constant_(layer.bias, HIDDEN_BIAS)
    nn.init.uniform_(layers[-1].weight, -output, output)
    nn.init.uniform_(layers[-1].bias, -output, output)
