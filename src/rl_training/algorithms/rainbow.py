"""Rainbow (Hessel et al. 2018, arXiv:1710.02298): C51 with double, dueling, noisy, n-step and prioritized learning together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from rl_training.algorithms.c51 import C51, C51Config
from rl_training.algorithms.dqn import DQN
from rl_training.config import setting


@dataclass(frozen=True, kw_only=True)
class RainbowConfig(C51Config):
    learning_rate: float = setting(6.25e-5, help="Adam step size", gt=0)
    adam_eps: float = setting(1.5e-4, help="Adam's guard against division by zero", gt=0)
    learning_starts: int = setting(20_000, help="env steps stored before the first update", ge=0)
    target_update_interval: int = setting(8_000, help="env steps between updates of the target network", ge=1)
    double: bool = setting(True, help="choose the next action with the online network")
    n_step: int = setting(3, help="rewards summed before bootstrapping", ge=1)
    priority: float = setting(0.5, help="exponent of prioritized replay; 0 samples uniformly", ge=0, le=1)


class Rainbow(C51):
    """Rainbow for discrete actions. `Rainbow("CartPole-v1", v_min=0, v_max=100, learning_starts=1_000).learn(50_000)`."""

    name = "rainbow"
    config_class = RainbowConfig
    defaults: ClassVar[dict[str, Any]] = DQN.defaults | {"model.dueling": True, "model.noisy": True}
