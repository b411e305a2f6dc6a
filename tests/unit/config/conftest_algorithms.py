"""Two small stand-in algorithms, so that the config package is tested by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from rl_training.config import setting


@dataclass(frozen=True, kw_only=True)
class PPOConfig:
    learning_rate: float = setting(3e-4, "step size", gt=0)
    gamma: float = setting(0.99, "discount", ge=0, le=1)
    gae_lambda: float = setting(0.95, "mix of returns", gt=0, le=1)
    num_steps: int = setting(128, "steps per rollout", ge=1)
    batch_size: int = setting(64, "minibatch", ge=1)
    target_kl: float | None = setting(None, "stop early", gt=0)
    betas: tuple[float, float] = setting((0.9, 0.999), "Adam", ge=0, lt=1)


@dataclass(frozen=True, kw_only=True)
class SACConfig:
    learning_rate: float = setting(3e-4, "step size", gt=0)
    tau: float = setting(0.005, "target speed", gt=0, le=1)
    entropy: float | str = setting("auto", "temperature", ge=0, choices=("auto",))


class PPO:
    name = "ppo"
    config_class = PPOConfig
    defaults: ClassVar[dict[str, Any]] = {"env.num_envs": 8}


class SAC:
    name = "sac"
    config_class = SACConfig
    defaults: ClassVar[dict[str, Any]] = {"model.hidden": (256, 256), "model.activation": "relu"}


class TD3:
    name = "td3"
    config_class = SACConfig
    defaults: ClassVar[dict[str, Any]] = {"model.hidden": (256, 256), "total_steps": 0, "offline_updates": 500}
