"""What methods have in common that learn from the returns of stored episodes: a value, and buffers with returns in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from rl_training.algorithms.base import Algorithm, Batch
from rl_training.algorithms.rollout import state_values
from rl_training.algorithms.stored import StoredConfig, scratch
from rl_training.config import TrainConfig, setting
from rl_training.data.dataset import Dataset
from rl_training.data.labelled import LabelledBuffer
from rl_training.models.cloning import ClippedGaussianPolicy
from rl_training.models.critics import ValueNet
from rl_training.models.policies import CategoricalPolicy
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class LabelledConfig(StoredConfig):
    gamma: float = setting(0.99, help="discount factor", ge=0, le=1)


class ReturnWeighted(Algorithm):
    """A policy that clones, and the value of states that actions are compared with."""

    policy: CategoricalPolicy | ClippedGaussianPolicy

    def __init__(self, policy: CategoricalPolicy | ClippedGaussianPolicy, critic: ValueNet) -> None:
        super().__init__()
        self.policy, self.critic = policy, critic

    @torch.no_grad()
    def prepare(self, rollout: Batch) -> Batch:
        return state_values(self.critic, self.normalized(rollout))


def labelled_buffers(
    config: TrainConfig, obs: ObsSpec, action: ActionSpec, *, parts: Sequence[int], lam: float, standardize: bool = False
) -> Callable[[Dataset], LabelledBuffer]:
    """What makes the buffer once the data are there."""
    c: LabelledConfig = config.algorithm

    def make(dataset: Dataset) -> LabelledBuffer:
        return LabelledBuffer(
            dataset, obs, action, parts=parts, lam=lam, standardize=standardize, batch_size=c.batch_size, gamma=c.gamma,
            scratch=scratch(config), seed=config.seed,
        )  # fmt: skip

    return make
