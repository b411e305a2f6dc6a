"""Monotonic advantage re-weighted imitation learning (Wang et al. 2018): cloning that leans towards what turned out well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from rl_training.agent import Q_VALUES_ONLY, Agent, Parts
from rl_training.algorithms.base import Batch
from rl_training.algorithms.labelled import LabelledConfig, ReturnWeighted, labelled_buffers
from rl_training.algorithms.optim import Optim
from rl_training.config import TrainConfig, setting
from rl_training.models.cloning import ClippedGaussianPolicy, cloning_policy
from rl_training.models.critics import ValueNet
from rl_training.models.policies import CategoricalPolicy
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class MARWILConfig(LabelledConfig):
    batch_size: int = setting(2000, help="transitions per update", ge=1)
    learning_rate: float = setting(1e-4, help="Adam step size of policy and value", gt=0)
    beta: float = setting(1.0, help="how much the policy prefers actions of high advantage; 0 clones", ge=0)
    norm_start: float = setting(100.0, help="mean square of the advantages that they are divided by, at the start", gt=0)
    norm_rate: float = setting(1e-8, help="how far it moves to that of each batch; as published it hardly moves", ge=0, le=1)
    max_weight: float | None = setting(None, help="largest weight of an action in the policy's loss", gt=0)
    vf_coef: float = setting(1.0, help="weight of the value loss", gt=0)
    label_every: int = setting(1000, help="updates between looks at what follows the cuts of episodes", ge=1)


class MARWILAlgorithm(ReturnWeighted):
    """Returns minus a learned value, divided by their running size, are exponents of weights for cloning."""

    mean_square: Tensor

    def __init__(
        self, config: MARWILConfig, policy: CategoricalPolicy | ClippedGaussianPolicy, critic: ValueNet
    ) -> None:
        super().__init__(policy, critic)
        self.config = config
        self.optim = Optim(self, ["policy", "critic"], config.learning_rate)
        # In float64: float32 would lose every move of a rate of 1e-8. Of shape (1,): on a CPU compiled programs take float64
        # tensors without dimensions for numbers, and what happens to them is lost.
        self.register_buffer("mean_square", torch.tensor([config.norm_start], dtype=torch.float64))

    def weighted(self, batch: Batch) -> Batch:
        """The batch with the advantage of its actions and the weights that follow; the running size takes them in first."""
        with torch.no_grad():
            advantage = batch["return"] - self.critic(batch["obs"])
            self.mean_square.lerp_(advantage.square().mean().double(), self.config.norm_rate)
            weight = (self.config.beta * advantage / (1e-8 + self.mean_square.sqrt().float())).exp()
            if self.config.max_weight is not None:
                weight = weight.clamp(max=self.config.max_weight)
            return batch | {"advantage": advantage, "actor_weight": weight}

    def loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        weight = batch["actor_weight"]
        policy_loss = -(weight * self.policy.log_prob(batch["obs"], batch["action"])).mean()
        value_loss = 0.5 * (batch["return"] - self.critic(batch["obs"])).square().mean()
        out = {"policy_loss": policy_loss.detach(), "value_loss": value_loss.detach()}
        out |= {"advantage": batch["advantage"].mean(), "actor_weight": weight.mean()}
        return policy_loss + self.config.vf_coef * value_loss, out

    def update(self, batch: Batch, **static: Any) -> Batch:
        return self.optim.minimize("loss", self.weighted(self.normalized(batch)))


class MARWIL(Agent):
    """MARWIL on stored data. `MARWIL("CartPole-v1", dataset="data/mixed", offline_updates=20_000).learn()`."""

    name = "marwil"
    config_class = MARWILConfig
    defaults: ClassVar[dict[str, Any]] = {
        "model.hidden": (256, 256), "model.activation": "relu", "model.init": "default", "total_steps": 0,
    }  # fmt: skip
    ignores = (*Q_VALUES_ONLY, "normalize_reward")

    @classmethod
    def build(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Parts:
        c: MARWILConfig = config.algorithm
        algorithm = MARWILAlgorithm(c, cloning_policy(obs, action, config.model), ValueNet(obs, config.model))
        return Parts(algorithm, offline=labelled_buffers(config, obs, action, parts=(c.label_every,), lam=1.0))
