"""Categorical DQN, C51 (Bellemare et al. 2017, arXiv:1707.06887): the distribution of returns on fixed atoms."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rl_training.algorithms.base import Batch
from rl_training.algorithms.dqn import DQN, DQNAlgorithm, DQNConfig, taken
from rl_training.config import TrainConfig, setting
from rl_training.errors import ConfigError
from rl_training.models.q_nets import MeanOfAtoms, q_net
from rl_training.objectives.categorical import cross_entropy, project
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class C51Config(DQNConfig):
    learning_rate: float = setting(2.5e-4, help="Adam step size", gt=0)
    adam_eps: float = setting(0.01 / 32, help="Adam's guard against division by zero", gt=0)
    double: bool = setting(False, help="choose the next action with the online network")
    v_min: float = setting(-10.0, help="smallest return that can be represented")
    v_max: float = setting(10.0, help="largest return that can be represented")
    atoms: int = setting(51, help="returns between v_min and v_max that get a probability", ge=2)


class C51Algorithm(DQNAlgorithm):
    """Cross-entropy to the target distribution, which is shifted, shrunk and projected back onto the atoms."""

    def loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        atoms = self.policy.head.atoms
        with torch.no_grad():
            value = batch["reward"].unsqueeze(-1) + batch["discount"].unsqueeze(-1) * atoms
            target = project(self.next_outputs(batch).softmax(-1), value, atoms)
        logits = taken(self.policy.net(batch["obs"]), batch["action"])
        error = cross_entropy(target, logits)
        loss = (batch["weight"] * error).mean()
        return loss, {"loss": loss.detach(), "q": self.policy.head(logits.detach()).mean(), "td": error.detach()}


class C51(DQN):
    """C51 for discrete actions. `C51("CartPole-v1", v_min=0, v_max=100).learn(50_000)`."""

    name = "c51"
    config_class = C51Config
    rule = C51Algorithm

    @classmethod
    def networks(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> tuple[nn.Module, nn.Module]:
        c: C51Config = config.algorithm
        if c.v_min >= c.v_max:
            raise ConfigError(
                f"algorithm.v_min = {c.v_min:g} is not below algorithm.v_max = {c.v_max:g}.",
                fix="Give the smallest and the largest discounted return that the task allows",
            )
        return q_net(obs, action, config.model, c.atoms), MeanOfAtoms(c.v_min, c.v_max, c.atoms)
