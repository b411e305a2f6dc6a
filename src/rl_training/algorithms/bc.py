"""Behaviour cloning (Pomerleau 1989): supervised learning of the stored actions, good and bad alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from rl_training.agent import Q_VALUES_ONLY, Agent, Parts
from rl_training.algorithms.base import Algorithm, Batch
from rl_training.algorithms.optim import Optim
from rl_training.algorithms.stored import StoredConfig, dataset_buffers
from rl_training.config import ModelConfig, TrainConfig, setting
from rl_training.errors import ConfigError
from rl_training.models.cloning import ClippedGaussianPolicy, cloning_policy
from rl_training.models.policies import CategoricalPolicy, DeterministicPolicy
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class BCConfig(StoredConfig):
    learning_rate: float = setting(3e-4, help="Adam step size", gt=0)
    loss: str = setting(
        "auto", help="mse teaches one action per observation, likelihood a Gaussian; auto: mse (discrete actions: cross-entropy)",
        choices=("auto", "likelihood", "mse"),
    )  # fmt: skip


class BCAlgorithm(Algorithm):
    """A policy that is told what was done."""

    policy: CategoricalPolicy | ClippedGaussianPolicy | DeterministicPolicy

    def __init__(self, config: BCConfig, policy: CategoricalPolicy | ClippedGaussianPolicy | DeterministicPolicy) -> None:
        super().__init__()
        self.policy = policy
        self.optim = Optim(self, ["policy"], config.learning_rate)

    def loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        if isinstance(self.policy, DeterministicPolicy):
            # The mean over dimensions too: the step size then fits robots of any number of joints.
            loss = (self.policy.net(batch["obs"]) - batch["action"]).square().mean()
        else:
            loss = -self.policy.log_prob(batch["obs"], batch["action"]).mean()
        return loss, {"loss": loss.detach()}

    def update(self, batch: Batch, **static: Any) -> Batch:
        return self.optim.minimize("loss", self.normalized(batch))


class BC(Agent):
    """BC on stored data; `keep_best=0.1` clones the best tenth of the episodes.

    `BC("Pendulum-v1", dataset="data/mixed", keep_best=0.1, offline_updates=100_000).learn()`
    """

    name = "bc"
    config_class = BCConfig
    defaults: ClassVar[dict[str, Any]] = {
        "model.hidden": (256, 256), "model.activation": "relu", "model.init": "default", "model.normalize_obs": True,
        "total_steps": 0,
    }  # fmt: skip
    ignores = (*Q_VALUES_ONLY, "normalize_reward")

    @classmethod
    def build(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Parts:
        c: BCConfig = config.algorithm
        policy: CategoricalPolicy | ClippedGaussianPolicy | DeterministicPolicy
        if action.kind != "continuous" and c.loss != "auto":
            raise ConfigError(f"algorithm.loss = {c.loss} is for continuous actions; these are discrete.", fix="Leave out loss")
        if action.kind == "continuous" and c.loss != "likelihood":
            if config.model.log_std_init != ModelConfig.log_std_init:
                raise ConfigError(
                    "model.log_std_init is the deviation of a Gaussian; squared error teaches one action.",
                    fix="Set --algorithm.loss likelihood, or leave out log_std_init",
                )
            policy = DeterministicPolicy(obs, action, config.model, noise=0.0)
        else:
            policy = cloning_policy(obs, action, config.model)
        return Parts(BCAlgorithm(c, policy), offline=dataset_buffers(config, obs, action))
