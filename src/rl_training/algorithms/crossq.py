"""CrossQ (Bhatt et al. 2024, arXiv:1902.05605): SAC with batch renormalization in place of target networks."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rl_training.algorithms.base import Algorithm, Batch
from rl_training.algorithms.optim import Optim
from rl_training.algorithms.replay import ContinuousReplayConfig
from rl_training.algorithms.sac import SAC
from rl_training.config import TrainConfig, setting
from rl_training.models.batch_renorm import JointCritic, absorb, in_training, renormalized_mlp
from rl_training.models.policies import SquashedGaussianPolicy
from rl_training.objectives.td import td_target
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class CrossQConfig(ContinuousReplayConfig):
    learning_starts: int = setting(5_000, help="env steps of random actions stored before the first update", ge=0)
    learning_rate: float = setting(1e-3, help="Adam step size of actor, critics and temperature", gt=0)
    beta1: float = setting(0.5, help="Adam's memory of the gradient", ge=0, lt=1)
    policy_delay: int = setting(3, help="critic updates per update of actor and temperature", ge=1)
    critic_hidden: tuple[int, ...] | None = setting(None, help="hidden layers of the critics; none: model.hidden", ge=1)
    alpha: float = setting(1.0, help="initial entropy temperature", gt=0)
    learn_alpha: bool = setting(True, help="adapt the temperature to the target entropy")
    target_entropy: float | None = setting(None, help="entropy the policy is held to; none: minus the action dimension")


class CrossQAlgorithm(Algorithm):
    """(s, a) and (s', a') go through the critics in one batch, so that one set of statistics normalizes both."""

    policy: SquashedGaussianPolicy

    def __init__(
        self, config: CrossQConfig, policy: SquashedGaussianPolicy, critic: JointCritic, target_entropy: float
    ) -> None:
        super().__init__()
        self.config, self.policy, self.critic, self.target_entropy = config, policy, critic, target_entropy
        self.log_alpha = nn.Parameter(torch.tensor(math.log(config.alpha)))
        betas = (config.beta1, 0.999)
        self.critic_optim = Optim(self, ["critic"], config.learning_rate, betas=betas)
        self.actor_optim = Optim(self, ["policy.net"], config.learning_rate, betas=betas)
        self.alpha_optim = Optim(self, ["log_alpha"], config.learning_rate, betas=betas)

    def schedule(self, n: int) -> dict[str, Hashable]:
        return {"actor": (n + 1) % self.config.policy_delay == 0}

    def critic_loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        with torch.no_grad():
            next_action, log_prob = self.policy.sample(batch["next_obs"])
        q, next_q, statistics = self.critic.joint(batch["obs"], batch["action"], batch["next_obs"], next_action)
        # The target has no gradient; through the statistics, the rows of (s', a') still shape that of q.
        next_value = next_q.detach().min(0).values - self.log_alpha.detach().exp() * log_prob
        td = q - td_target(batch["reward"], batch["discount"], next_value)
        loss = (batch["weight"] * td.square()).mean(1).sum()
        out = {"critic_loss": loss.detach(), "q": q.detach().mean(), "td": td.detach().abs().mean(0)}
        return loss, out | {"statistics": statistics}

    def actor_loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        outputs, statistics = in_training(self.policy.net, batch["obs"])
        action, log_prob = self.policy.sample_from(outputs)
        q = self.critic(batch["obs"], action).min(0).values
        loss = (self.log_alpha.detach().exp() * log_prob - q).mean()
        return loss, {"actor_loss": loss.detach(), "entropy": -log_prob.detach().mean(), "statistics": statistics}

    def alpha_loss(self, entropy: Tensor) -> tuple[Tensor, Batch]:
        loss = self.log_alpha * (entropy - self.target_entropy)
        return loss, {"alpha": self.log_alpha.detach().exp()}

    def update(self, batch: Batch, actor: Hashable = True, **static: Hashable) -> Batch:
        batch = self.normalized(batch)
        out = self.critic_optim.minimize("critic_loss", batch)
        absorb(self.critic.body, out.pop("statistics"))
        if actor:
            out |= self.actor_optim.minimize("actor_loss", batch)
            absorb(self.policy.net, out.pop("statistics"))
            if self.config.learn_alpha:
                out |= self.alpha_optim.minimize("alpha_loss", out["entropy"])
        return out


class CrossQ(SAC):
    """CrossQ for continuous actions. `CrossQ("Pendulum-v1", learning_starts=500).learn(10_000)`."""

    name = "crossq"
    config_class = CrossQConfig
    ignores = (*SAC.ignores, "layer_norm", "block")

    @classmethod
    def rule(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec, target_entropy: float) -> Algorithm:
        c: CrossQConfig = config.algorithm
        policy = SquashedGaussianPolicy(obs, action, config.model, body=renormalized_mlp)
        critic = JointCritic(obs, action, config.model, config.model.hidden if c.critic_hidden is None else c.critic_hidden)
        return CrossQAlgorithm(c, policy, critic, target_entropy)
