"""Reinforcement learning on PyTorch and Gymnasium: online, offline and offline-to-online in one design.

>>> from rl_training import PPO
>>> agent = PPO("CartPole-v1", num_envs=8).learn(100_000)   # doctest: +SKIP
>>> agent.evaluate(num_episodes=10).mean                     # doctest: +SKIP
500.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rl_training.algorithms import (
        A2C,
        AWAC,
        AWR,
        BC,
        BCQ,
        BEAR,
        C51,
        CQL,
        CRR,
        DDPG,
        DQN,
        EDAC,
        IQL,
        IQN,
        MARWIL,
        PPO,
        QRDQN,
        REDQ,
        RLPD,
        SAC,
        SACN,
        TD3,
        TD3BC,
        TQC,
        TRPO,
        XQL,
        CalQL,
        CrossQ,
        DiscreteSAC,
        DroQ,
        Rainbow,
        ReBRAC,
    )
    from rl_training.config import TrainConfig
    from rl_training.experiment.callbacks import Callback, StopOnReturn
    from rl_training.experiment.results import TrainResult

__version__ = "0.1.0"
__all__ = [
    "A2C", "AWAC", "AWR", "BC", "BCQ", "BEAR", "C51", "CQL", "CRR", "DDPG", "DQN", "EDAC", "IQL", "IQN", "MARWIL", "PPO",
    "QRDQN", "REDQ", "RLPD", "SAC", "SACN", "TD3", "TD3BC", "TQC", "TRPO", "XQL", "CalQL", "Callback", "CrossQ",
    "DiscreteSAC", "DroQ", "Rainbow", "ReBRAC", "StopOnReturn", "TrainConfig", "TrainResult", "train",
]  # fmt: skip
_HOMES = {
    "TrainConfig": "config",
    "TrainResult": "experiment.results",
    "Callback": "experiment.callbacks",
    "StopOnReturn": "experiment.callbacks",
}


def train(config: TrainConfig, **overrides: Any) -> TrainResult:
    """Train what a config describes; keywords override its settings by name. Returns where the run is and how it ended."""
    from rl_training import algorithms
    from rl_training.config import override

    config = override(config, **overrides) if overrides else config
    agent = algorithms.find(config.algo).from_config(config).learn()
    assert agent.result is not None
    return agent.result


def __getattr__(name: str) -> Any:
    # Imported on first use: `import rl_training` alone must not wait for torch.
    if name in __all__:
        import importlib

        return getattr(importlib.import_module(f"rl_training.{_HOMES.get(name, 'algorithms')}"), name)
    raise AttributeError(f"module 'rl_training' has no attribute '{name}'")
