"""TD3+BC, a minimal offline method (Fujimoto & Gu 2021, arXiv:2106.06860): TD3 with one extra actor term."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from rl_training.algorithms.td3 import TD3, TD3Config
from rl_training.algorithms.terms import BehaviorCloning
from rl_training.config import TrainConfig, setting


@dataclass(frozen=True, kw_only=True)
class TD3BCConfig(TD3Config):
    bc_alpha: float = setting(2.5, help="weight of the normalized Q term against behaviour cloning", ge=0)


class TD3BC(TD3):
    """TD3+BC on stored data. `TD3BC("Pendulum-v1", dataset="data/mixed", offline_updates=100_000).learn()`."""

    name = "td3_bc"
    config_class = TD3BCConfig
    # Observations standardized by the data's statistics are part of the method.
    defaults: ClassVar[dict[str, Any]] = TD3.defaults | {"model.normalize_obs": True, "total_steps": 0}

    @classmethod
    def cloning(cls, config: TrainConfig) -> BehaviorCloning:
        return BehaviorCloning(config.algorithm.bc_alpha)
