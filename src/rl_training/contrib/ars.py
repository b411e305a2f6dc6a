"""Augmented random search (Mania et al. 2018, arXiv:1803.07055): better policies found by trying, without any gradient."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rl_training.agent import Q_VALUES_ONLY, Agent, Parts
from rl_training.algorithms.base import Algorithm, Batch
from rl_training.config import ModelConfig, TrainConfig, setting
from rl_training.data.episode_buffer import EpisodeBuffer
from rl_training.errors import ConfigError
from rl_training.models.encoders import make_encoder
from rl_training.models.mlp import mlp
from rl_training.models.noisy import PairedLinear
from rl_training.models.policies import Policy, likeliest
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class ARSConfig:
    learning_rate: float = setting(0.02, help="length of a step, in units of the returns' deviation", gt=0)
    noise: float = setting(0.03, help="deviation of the weights that are tried", gt=0)
    num_steps: int = setting(1_000, help="env steps per environment and update; should hold whole episodes", ge=1)
    top: int | None = setting(None, help="directions, the best ones, that a step follows; none: all", ge=1)


class SearchPolicy(Policy):
    """The best-scored action, or the network's outputs themselves; while exploring every environment has weights of its own."""

    def __init__(self, obs: ObsSpec, action: ActionSpec, model: ModelConfig, directions: int, noise: float) -> None:
        super().__init__(obs, model)
        self.action = action
        encoder, features = make_encoder(obs, model)
        linear = partial(PairedLinear, directions=directions, sigma=noise)
        outputs = action.dim if action.kind == "continuous" else sum(action.nvec)
        self.net = nn.Sequential(encoder, *mlp(features, outputs, model, output_gain=0.01, linear=linear))

    def choose(self, outputs: NDArray[Any], rng: np.random.Generator, step: int, explore: bool) -> NDArray[Any]:
        if self.action.kind == "continuous":
            return outputs
        return outputs.argmax(-1) if self.action.kind == "discrete" else likeliest(outputs, self.action.nvec)


class ARSAlgorithm(Algorithm):
    """Every direction is tried forwards and backwards; the weights move along those that made a difference."""

    policy: SearchPolicy

    def __init__(self, config: ARSConfig, policy: SearchPolicy, top: int) -> None:
        super().__init__()
        self.config, self.policy, self.top = config, policy, top

    @torch.no_grad()
    def update(self, batch: Batch, **static: Any) -> Batch:
        forwards, backwards = batch["episode_return"].chunk(2)
        best = forwards.maximum(backwards).topk(self.top).indices
        used = torch.cat([forwards[best], backwards[best]])
        scale = self.config.learning_rate / (self.top * (used.std(correction=0) + 1e-8))
        weights = torch.zeros_like(forwards).index_copy(0, best, scale * (forwards - backwards)[best])
        for layer in self.policy.modules():
            if isinstance(layer, PairedLinear):
                layer.move(weights)
        return {"return_mean": used.mean(), "return_deviation": used.std(correction=0)}


class ARS(Agent):
    """ARS for every kind of action. `ARS("CartPole-v1", num_envs=16, num_steps=500).learn(200_000)`."""

    name = "ars"
    config_class = ARSConfig
    defaults: ClassVar[dict[str, Any]] = {"env.num_envs": 16, "model.hidden": (), "model.normalize_obs": True}
    ignores = (*Q_VALUES_ONLY, "normalize_reward", "log_std_init")

    @classmethod
    def build(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Parts:
        c: ARSConfig = config.algorithm
        envs = config.env.num_envs
        if envs % 2:
            raise ConfigError(
                f"ars tries each direction forwards and backwards at once, so env.num_envs = {envs} must be even.",
                fix=f"Set --num-envs {envs + 1}",
            )
        top = envs // 2 if c.top is None else c.top
        if top > envs // 2:
            raise ConfigError(
                f"algorithm.top = {top} is more than the {envs // 2} directions of {envs} environments.",
                fix=f"Set --algorithm.top {envs // 2}, or --num-envs {2 * top}",
            )
        policy = SearchPolicy(obs, action, config.model, envs // 2, c.noise)
        return Parts(ARSAlgorithm(c, policy, top), EpisodeBuffer(c.num_steps, envs), collect=c.num_steps)
