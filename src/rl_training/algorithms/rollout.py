"""What every on-policy actor-critic has in common: its settings, its networks, and what it adds to a fresh rollout."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from rl_training.agent import Parts
from rl_training.algorithms.base import Algorithm, Batch
from rl_training.config import ModelConfig, TrainConfig, setting
from rl_training.data.batch import tree_map
from rl_training.data.rollout_buffer import RolloutBuffer
from rl_training.models.critics import ValueNet
from rl_training.models.policies import CategoricalPolicy, GaussianPolicy
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class RolloutConfig:
    learning_rate: float = setting(3e-4, help="Adam step size", gt=0)
    anneal_lr: bool = setting(False, help="let the step size fall linearly to 0 over training")
    num_steps: int = setting(128, help="env steps per environment and rollout", ge=1)
    gamma: float = setting(0.99, help="discount factor", ge=0, le=1)
    gae_lambda: float = setting(0.95, help="bias-variance trade-off of the advantage", ge=0, le=1)


class ActorCritic(Algorithm):
    """A policy and a value network that learn from what the policy has just done."""

    policy: CategoricalPolicy | GaussianPolicy

    def __init__(self, policy: CategoricalPolicy | GaussianPolicy, critic: ValueNet) -> None:
        super().__init__()
        self.policy, self.critic = policy, critic

    @torch.no_grad()
    def prepare(self, rollout: Batch) -> Batch:
        """Values of the whole rollout in one pass, and log-probabilities from what the policy gave when it acted."""
        rollout = self.normalized(rollout)
        log_prob, _ = self.policy.evaluate(rollout["outputs"].flatten(0, 1), rollout["action"].flatten(0, 1))
        return state_values(self.critic, rollout) | {"log_prob": log_prob.view(rollout["reward"].shape)}


def state_values(critic: ValueNet, rollout: Batch) -> Batch:
    """What (T, N) consecutive steps with normalized observations begin in and lead to, in little more than one pass."""
    shape = rollout["reward"].shape
    obs, next_obs = (tree_map(lambda x: x.flatten(0, 1), rollout[k]) for k in ("obs", "next_obs"))
    value = critic(obs)
    # V(next_obs) is the next row's value, except where an episode was cut and at the end of the rollout.
    next_value = torch.cat([value[shape[1] :], value[: shape[1]]])
    cut = rollout["truncated"].clone()
    cut[-1] = True
    rows = cut.flatten().nonzero().squeeze(-1)
    next_value[rows] = critic(tree_map(lambda x: x[rows], next_obs))
    return {"value": value.view(shape), "next_value": next_value.view(shape)}


def actor_critic(obs: ObsSpec, action: ActionSpec, model: ModelConfig) -> tuple[CategoricalPolicy | GaussianPolicy, ValueNet]:
    """Separate networks for what to do and what it is worth."""
    policy_class = GaussianPolicy if action.kind == "continuous" else CategoricalPolicy
    return policy_class(obs, action, model), ValueNet(obs, model)


def rollout_parts(
    config: TrainConfig,
    algorithm: ActorCritic,
    *,
    epochs: int = 1,
    minibatches: int = 1,
    target_kl: float | None = None,
    whole_first: bool = False,
) -> Parts:
    """The algorithm with the rollout buffer that a `RolloutConfig` describes."""
    c: RolloutConfig = config.algorithm
    buffer = RolloutBuffer(
        c.num_steps, config.env.num_envs, gamma=c.gamma, gae_lambda=c.gae_lambda, epochs=epochs, minibatches=minibatches,
        target_kl=target_kl, whole_first=whole_first, scale_rewards=config.model.normalize_reward, seed=config.seed,
    )  # fmt: skip
    return Parts(algorithm, buffer, collect=c.num_steps, keep_outputs=True)
