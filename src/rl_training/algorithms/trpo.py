"""Trust region policy optimization (Schulman et al. 2015, arXiv:1502.05477)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from rl_training.agent import Q_VALUES_ONLY, Agent, Parts
from rl_training.algorithms.base import Batch
from rl_training.algorithms.optim import Optim
from rl_training.algorithms.rollout import ActorCritic, RolloutConfig, actor_critic, rollout_parts
from rl_training.algorithms.trust_region import TrustRegion
from rl_training.config import TrainConfig, setting
from rl_training.models.critics import ValueNet
from rl_training.models.policies import CategoricalPolicy, GaussianPolicy
from rl_training.objectives.policy_gradient import normalize_advantage
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class TRPOConfig(RolloutConfig):
    learning_rate: float = setting(1e-3, help="Adam step size of the critic", gt=0)
    num_steps: int = setting(256, help="env steps per environment and rollout", ge=1)
    critic_epochs: int = setting(10, help="passes of the critic over each rollout", ge=1)
    minibatches: int = setting(16, help="minibatches per pass of the critic", ge=1)
    target_kl: float = setting(0.01, help="how far a step may move the policy: mean KL(old || new)", gt=0)
    cg_steps: int = setting(15, help="iterations of the conjugate gradient", ge=1)
    cg_damping: float = setting(0.1, help="added to the diagonal of the Fisher matrix", ge=0)
    backtrack: float = setting(0.8, help="a step that is refused is shortened by this factor", gt=0, lt=1)
    backtrack_steps: int = setting(10, help="lengths that are tried before the step is given up", ge=1)


class TRPOAlgorithm(ActorCritic):
    """One step of the policy on the whole rollout, as far as its KL bound allows, then epochs of the critic in minibatches."""

    def __init__(self, config: TRPOConfig, policy: CategoricalPolicy | GaussianPolicy, critic: ValueNet) -> None:
        super().__init__(policy, critic)
        self.config = config
        self.policy_optim = TrustRegion(
            self, ["policy"], config.target_kl, cg_steps=config.cg_steps, damping=config.cg_damping,
            backtrack=config.backtrack, backtrack_steps=config.backtrack_steps,
        )  # fmt: skip
        self.critic_optim = Optim(self, ["critic"], config.learning_rate, eps=1e-5)

    def schedule(self, n: int) -> dict[str, Hashable]:
        return {"whole": n % (1 + self.config.critic_epochs * self.config.minibatches) == 0}

    def anneal(self, progress: float) -> None:
        if self.config.anneal_lr:
            self.critic_optim.lr.fill_(self.config.learning_rate * (1 - progress))

    def surrogate(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """What the new policy gains by the old one's advantages, and how far it is from that policy."""
        outputs = self.policy.net(batch["obs"])
        log_prob, _ = self.policy.evaluate(outputs, batch["action"])
        ratio = (log_prob - batch["log_prob"]).exp()
        kl = self.policy.kl(batch["old"], self.policy.distribution(outputs))
        return (ratio * normalize_advantage(batch["advantage"])).mean(), kl.mean()

    def critic_loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        loss = (batch["return"] - self.critic(batch["obs"])).square().mean()
        return loss, {"value_loss": loss.detach()}

    def update(self, batch: Batch, whole: Hashable = False, **static: Hashable) -> Batch:
        batch = self.normalized(batch)
        if not whole:
            return self.critic_optim.minimize("critic_loss", batch)
        with torch.no_grad():
            old = self.policy.distribution(self.policy.net(batch["obs"]))
        return self.policy_optim.maximize("surrogate", batch | {"old": old})


class TRPO(Agent):
    """TRPO for discrete, MultiDiscrete and continuous actions. `TRPO("Pendulum-v1", gamma=0.9).learn(100_000)`."""

    name = "trpo"
    config_class = TRPOConfig
    defaults: ClassVar[dict[str, Any]] = {"env.num_envs": 8}
    ignores = Q_VALUES_ONLY

    @classmethod
    def build(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Parts:
        c: TRPOConfig = config.algorithm
        cls.check_minibatches(c.num_steps, config.env.num_envs, c.minibatches)
        algorithm = TRPOAlgorithm(c, *actor_critic(obs, action, config.model))
        return rollout_parts(config, algorithm, epochs=c.critic_epochs, minibatches=c.minibatches, whole_first=True)
