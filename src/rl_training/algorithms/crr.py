"""Critic-regularized regression (Wang et al. 2020, arXiv:2006.15134): clones the stored actions that its critics approve of."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from rl_training.agent import Q_VALUES_ONLY, Agent, Parts
from rl_training.algorithms.awac import WeightedCloning
from rl_training.algorithms.base import Batch
from rl_training.algorithms.optim import Target
from rl_training.algorithms.replay import ReplayConfig, replay_parts
from rl_training.config import TrainConfig, setting
from rl_training.data.batch import tree_map
from rl_training.errors import ConfigError
from rl_training.models.cloning import ClippedGaussianPolicy
from rl_training.models.critics import EnsembleCritic
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class CRRConfig(ReplayConfig):
    learning_rate: float = setting(3e-4, help="Adam step size of actor and critics", gt=0)
    tau: float = setting(0.005, help="how far the targets move; 1 copies", gt=0, le=1)
    target_update_interval: int = setting(1, help="updates between moves of the targets", ge=1)
    filter: str = setting(
        "binary", help="clone the actions that are better than the baseline, or all by an exponential of how much",
        choices=("binary", "exponential"),
    )  # fmt: skip
    baseline: str = setting("mean", help="what an action is compared with, of the sampled ones", choices=("mean", "max"))
    samples: int = setting(4, help="actions of the policy that the baseline is made of", ge=1)
    temperature: float = setting(1.0, help="of the exponential: the advantage that counts e times as much as none", gt=0)
    max_weight: float = setting(20.0, help="largest weight that the exponential gives", gt=0)
    members: int = setting(2, help="critics; the smallest of their values counts", ge=1)


class CRRAlgorithm(WeightedCloning):
    """Critics of the target policy, and a policy that clones what passes the filter; both steps see the networks as they were."""

    def __init__(self, config: CRRConfig, policy: ClippedGaussianPolicy, critic: EnsembleCritic) -> None:
        super().__init__(policy, critic, config.learning_rate, config.tau)
        self.config = config
        self.actor_target = Target(self, "policy", config.tau)

    def schedule(self, n: int) -> dict[str, Hashable]:
        return {"sync": (n + 1) % self.config.target_update_interval == 0}

    def next_action(self, obs: Any) -> Tensor:
        return self.actor_target.net.sample(obs)

    def baseline(self, obs: Any) -> Tensor:
        many = tree_map(lambda x: x.expand(self.config.samples, *x.shape).flatten(0, 1), obs)
        q = self.critic(many, self.policy.sample(many)).min(0).values.view(self.config.samples, -1)
        return q.mean(0) if self.config.baseline == "mean" else q.max(0).values

    def weight(self, advantage: Tensor) -> Tensor:
        if self.config.filter == "binary":
            return (advantage > 0).to(advantage.dtype)
        return (advantage / self.config.temperature).exp().clamp(max=self.config.max_weight)

    def update(self, batch: Batch, sync: Hashable = True, **static: Hashable) -> Batch:
        batch = self.weighted(self.normalized(batch))
        out = self.critic_optim.minimize("critic_loss", batch)
        out |= self.actor_optim.minimize("actor_loss", batch)
        if sync:
            self.target.update()
            self.actor_target.update()
        return out


def check_filter(c: CRRConfig) -> None:
    """Refuse settings of the exponential where it is not used."""
    for name in ("temperature", "max_weight") if c.filter == "binary" else ():
        if getattr(c, name) != getattr(CRRConfig, name):
            raise ConfigError(
                f"algorithm.{name} = {getattr(c, name)} has no effect with the binary filter.",
                fix=f"Set --algorithm.filter exponential, or leave out {name}",
            )


class CRR(Agent):
    """CRR on stored data, and then online. `CRR("Pendulum-v1", dataset="data/mixed", offline_updates=100_000).learn()`."""

    name = "crr"
    config_class = CRRConfig
    defaults: ClassVar[dict[str, Any]] = {
        "model.hidden": (256, 256), "model.activation": "relu", "model.init": "default", "total_steps": 0,
    }  # fmt: skip
    ignores = (*Q_VALUES_ONLY, "normalize_reward")

    @classmethod
    def build(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Parts:
        c: CRRConfig = config.algorithm
        check_filter(c)
        policy = ClippedGaussianPolicy(obs, action, config.model)
        algorithm = CRRAlgorithm(c, policy, EnsembleCritic(obs, action, config.model, c.members))
        return replay_parts(config, obs, action, algorithm)
