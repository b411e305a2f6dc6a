"""Proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from rl_training.agent import Q_VALUES_ONLY, Agent, Parts
from rl_training.algorithms.base import Batch
from rl_training.algorithms.optim import Optim
from rl_training.algorithms.rollout import ActorCritic, RolloutConfig, actor_critic, rollout_parts
from rl_training.config import TrainConfig, setting
from rl_training.models.critics import ValueNet
from rl_training.models.policies import CategoricalPolicy, GaussianPolicy
from rl_training.objectives.policy_gradient import (
    approximate_kl,
    clipped_surrogate,
    clipped_value_loss,
    normalize_advantage,
)
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class PPOConfig(RolloutConfig):
    epochs: int = setting(4, help="passes over each rollout", ge=1)
    minibatches: int = setting(4, help="minibatches per pass", ge=1)
    clip: float = setting(0.2, help="how far the probability ratio may move from 1", gt=0)
    anneal_clip: bool = setting(False, help="let the clip range fall linearly to 0 over training")
    clip_value: bool = setting(False, help="clip value predictions by the same range")
    ent_coef: float = setting(0.0, help="weight of the entropy bonus", ge=0)
    vf_coef: float = setting(0.5, help="weight of the value loss", ge=0)
    max_grad_norm: float = setting(0.5, help="global gradient norm is clipped to this", gt=0)
    normalize_advantage: bool = setting(True, help="standardize advantages in every minibatch")
    target_kl: float | None = setting(None, help="stop a rollout's updates above 1.5 times this KL estimate", gt=0)


def ppo_loss(
    minibatch: Batch,
    clip_coef: Tensor | float,
    ent_coef: float,
    vf_coef: float,
    *,
    clip_value: bool = False,
    normalize: bool = True,
) -> dict[str, Tensor]:
    """PPO's loss and its parts.

    `minibatch` holds (B,) tensors: the rollout's `log_prob`, `advantage`, `return` and `value`, and under the current parameters
    `new_log_prob`, `new_value` and `entropy`. The value loss is the plain mean squared error.
    """
    clip_coef = torch.as_tensor(clip_coef)
    advantage = normalize_advantage(minibatch["advantage"]) if normalize else minibatch["advantage"]
    log_ratio = minibatch["new_log_prob"] - minibatch["log_prob"]
    policy_loss = clipped_surrogate(log_ratio, advantage, clip_coef).mean()
    clip = clip_coef if clip_value else None
    value_loss = clipped_value_loss(minibatch["new_value"], minibatch["value"], minibatch["return"], clip).mean()
    entropy = minibatch["entropy"].mean()
    with torch.no_grad():
        kl = approximate_kl(log_ratio).mean()
        clipped = ((log_ratio.exp() - 1).abs() > clip_coef).float().mean()
    return {
        "loss": policy_loss + vf_coef * value_loss - ent_coef * entropy,
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy_loss": -entropy,
        "approx_kl": kl,
        "clip_fraction": clipped,
    }


class PPOAlgorithm(ActorCritic):
    """Actor and critic in one optimizer, updated on shuffled minibatches of the newest rollout."""

    clip: Tensor

    def __init__(self, config: PPOConfig, policy: CategoricalPolicy | GaussianPolicy, critic: ValueNet) -> None:
        super().__init__(policy, critic)
        self.config = config
        self.register_buffer("clip", torch.tensor(config.clip))
        self.optim = Optim(self, ["policy", "critic"], config.learning_rate, max_norm=config.max_grad_norm, eps=1e-5)

    def anneal(self, progress: float) -> None:
        if self.config.anneal_lr:
            self.optim.lr.fill_(self.config.learning_rate * (1 - progress))
        if self.config.anneal_clip:
            self.clip.fill_(max(self.config.clip * (1 - progress), 1e-8))

    def loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        new_log_prob, entropy = self.policy.evaluate(self.policy.net(batch["obs"]), batch["action"])
        new = {"new_log_prob": new_log_prob, "entropy": entropy, "new_value": self.critic(batch["obs"])}
        c = self.config
        out = ppo_loss(
            batch | new, self.clip, c.ent_coef, c.vf_coef, clip_value=c.clip_value, normalize=c.normalize_advantage
        )
        return out["loss"], {k: v.detach() for k, v in out.items()}

    def update(self, batch: Batch, **static: Any) -> Batch:
        return self.optim.minimize("loss", self.normalized(batch))


class PPO(Agent):
    """PPO for discrete, MultiDiscrete and continuous actions. `PPO("CartPole-v1", num_envs=8).learn(100_000)`."""

    name = "ppo"
    config_class = PPOConfig
    defaults: ClassVar[dict[str, Any]] = {"env.num_envs": 8}
    ignores = Q_VALUES_ONLY

    @classmethod
    def build(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Parts:
        c: PPOConfig = config.algorithm
        cls.check_minibatches(c.num_steps, config.env.num_envs, c.minibatches)
        algorithm = PPOAlgorithm(c, *actor_critic(obs, action, config.model))
        return rollout_parts(config, algorithm, epochs=c.epochs, minibatches=c.minibatches, target_kl=c.target_kl)
