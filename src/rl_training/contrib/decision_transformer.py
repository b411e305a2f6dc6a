"""Decision transformer (Chen et al. 2021, arXiv:2106.01345): what episodes did that returned as much as is wanted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from torch import Tensor
from torch.nn import functional as F

from rl_training.agent import Q_VALUES_ONLY, Agent, Parts
from rl_training.algorithms.adamw import AdamW
from rl_training.algorithms.base import Algorithm, Batch
from rl_training.algorithms.stored import StoredConfig
from rl_training.config import DataConfig, TrainConfig, setting
from rl_training.contrib.recollection import Episode, Recollecting
from rl_training.data.dataset import Dataset
from rl_training.data.sequences import SequenceBuffer
from rl_training.errors import ConfigError
from rl_training.models.return_policy import ReturnPolicy
from rl_training.models.transformer import DecisionNet
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class DecisionTransformerConfig(StoredConfig):
    batch_size: int = setting(64, help="slices of episodes per update", ge=1)
    context: int = setting(20, help="steps that are looked at, the present one included", ge=1)
    learning_rate: float = setting(1e-4, help="step size of Adam with weight decay", gt=0)
    warmup_updates: int = setting(10_000, help="updates over which steps grow to their full size", ge=0)
    weight_decay: float = setting(1e-4, help="part of each weight that goes, per unit of step size", ge=0)
    max_grad_norm: float = setting(0.25, help="global gradient norm is clipped to this", gt=0)
    heads: int = setting(1, help="attention heads of each block", ge=1)
    dropout: float = setting(0.1, help="share of activations that an update leaves out", ge=0, lt=1)
    max_steps: int = setting(1_000, help="env steps of the longest episode", ge=1)
    return_scale: float | None = setting(None, help="returns are divided by this; none: the largest that is stored", gt=0)
    target_return: float | None = setting(None, help="return that is asked for in acting; none: the best that is stored")


class DecisionTransformerAlgorithm(Algorithm):
    """Every step's action is predicted from its return-to-go, its observation, and the steps before."""

    policy: ReturnPolicy

    def __init__(self, config: DecisionTransformerConfig, policy: ReturnPolicy) -> None:
        super().__init__()
        self.config, self.policy, c = config, policy, config
        self.optim = AdamW(
            self, ["policy.net"], c.learning_rate, weight_decay=c.weight_decay, warmup=c.warmup_updates, max_norm=c.max_grad_norm
        )

    def loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        outputs, action, known = self.policy.net(batch, self.config.dropout), batch["action"], batch["mask"].float()
        if self.policy.discrete:
            error = F.cross_entropy(outputs.flatten(0, 1), action.flatten(), reduction="none").view_as(known)
        else:
            error = (outputs.tanh() - action).square().mean(-1)
        loss = (error * known).sum() / known.sum()
        return loss, {"loss": loss.detach()}

    def update(self, batch: Batch, **static: Any) -> Batch:
        return self.optim.minimize("loss", self.normalized(batch))


class DecisionTransformer(Agent):
    """DT on stored episodes. `DecisionTransformer("Pendulum-v1", dataset="data/mixed", offline_updates=100_000).learn()`."""

    name = "decision_transformer"
    config_class = DecisionTransformerConfig
    defaults: ClassVar[dict[str, Any]] = {
        "model.hidden": (128, 128, 128), "model.activation": "relu", "model.init": "default", "model.normalize_obs": True,
        "total_steps": 0,
    }  # fmt: skip
    ignores = (*Q_VALUES_ONLY, "normalize_reward", "log_std_init", "block", "layer_norm")

    @classmethod
    def build(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Parts:
        c: DecisionTransformerConfig = config.algorithm
        check_rewards(config.data)
        net = DecisionNet(obs, action, config.model, context=c.context, heads=c.heads, max_steps=c.max_steps)
        policy = ReturnPolicy(obs, action, config.model, net)
        return Parts(DecisionTransformerAlgorithm(c, policy), offline=slices(c, policy, config.seed))

    def episode(self, target_return: float | None = None) -> Episode:
        """One to play step by step, with the memory of what came before."""
        return Episode(self, self.config.algorithm.context, target_return)

    def at_play(self, envs: Any) -> tuple[Any, Any]:
        policy: Any = self.parts.algorithm.policy
        played = Recollecting(policy, envs, self.config.algorithm.context)
        return played, played


def check_rewards(data: DataConfig) -> None:
    """Refuse changed rewards: what is asked for in acting, and what is left of it, are returns of the environment."""
    for name in ("reward", "reward_scale", "reward_bias"):
        if getattr(data, name) != getattr(DataConfig, name):
            raise ConfigError(
                f"data.{name} = {getattr(data, name)} would change what returns mean, and this algorithm asks for returns.",
                fix=f"Leave out data.{name}; algorithm.return_scale brings returns to a size that is easily learned",
            )


def slices(c: DecisionTransformerConfig, policy: ReturnPolicy, seed: int) -> Callable[[Dataset], SequenceBuffer]:
    """What makes the buffer once the data are there, and tells the policy what returns they have."""

    def make(dataset: Dataset) -> SequenceBuffer:
        returns = dataset.episode_returns()
        scale = float(np.abs(returns).max()) or 1.0 if c.return_scale is None else c.return_scale
        policy.scale.fill_(scale)
        policy.target.fill_(float(returns.max()) if c.target_return is None else c.target_return)
        return SequenceBuffer(dataset, batch_size=c.batch_size, context=c.context, scale=scale, seed=seed)

    return make
