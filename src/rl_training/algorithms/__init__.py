"""The registry: every algorithm by its command-line name. `from rl_training.algorithms import PPO` imports only what it needs."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rl_training.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from rl_training.agent import Agent
    from rl_training.algorithms.a2c import A2C
    from rl_training.algorithms.awac import AWAC
    from rl_training.algorithms.awr import AWR
    from rl_training.algorithms.bc import BC
    from rl_training.algorithms.bcq import BCQ
    from rl_training.algorithms.bear import BEAR
    from rl_training.algorithms.c51 import C51
    from rl_training.algorithms.cal_ql import CalQL
    from rl_training.algorithms.cql import CQL
    from rl_training.algorithms.crossq import CrossQ
    from rl_training.algorithms.crr import CRR
    from rl_training.algorithms.ddpg import DDPG
    from rl_training.algorithms.discrete_sac import DiscreteSAC
    from rl_training.algorithms.dqn import DQN
    from rl_training.algorithms.droq import DroQ
    from rl_training.algorithms.edac import EDAC
    from rl_training.algorithms.iqn import IQN
    from rl_training.algorithms.marwil import MARWIL
    from rl_training.algorithms.ppo import PPO
    from rl_training.algorithms.qr_dqn import QRDQN
    from rl_training.algorithms.rainbow import Rainbow
    from rl_training.algorithms.rebrac import ReBRAC
    from rl_training.algorithms.redq import REDQ
    from rl_training.algorithms.rlpd import RLPD
    from rl_training.algorithms.sac import SAC
    from rl_training.algorithms.sac_n import SACN
    from rl_training.algorithms.td3 import TD3
    from rl_training.algorithms.td3_bc import TD3BC
    from rl_training.algorithms.tqc import TQC
    from rl_training.algorithms.trpo import TRPO
    from rl_training.algorithms.xql import XQL


@dataclass(frozen=True)
class Entry:
    """Where an algorithm lives and what it is for: enough to list it without importing torch."""

    module: str
    agent: str
    summary: str
    actions: tuple[str, ...]
    home: str = "algorithms"  # or contrib, for what is less settled
    offline: bool = False  # learns from stored data alone
    mixes_data: bool = False  # learns from stored data beside its own

    @property
    def needs_data(self) -> bool:
        return self.offline or self.mixes_data


_ALL = ("discrete", "multidiscrete", "continuous")
REGISTRY: dict[str, Entry] = {
    "ppo": Entry("ppo", "PPO", "Proximal policy optimization", _ALL),
    "a2c": Entry("a2c", "A2C", "Advantage actor-critic, synchronous", _ALL),
    "trpo": Entry("trpo", "TRPO", "Trust region policy optimization", _ALL),
    "dqn": Entry("dqn", "DQN", "Deep Q-learning with Double, Dueling, n-step, prioritized and noisy options", ("discrete",)),
    "c51": Entry("c51", "C51", "DQN on return distributions over fixed atoms", ("discrete",)),
    "qr_dqn": Entry("qr_dqn", "QRDQN", "DQN on return distributions by their quantiles", ("discrete",)),
    "iqn": Entry("iqn", "IQN", "DQN on return distributions at random quantiles", ("discrete",)),
    "rainbow": Entry("rainbow", "Rainbow", "C51 with double, dueling, noisy, n-step and prioritized learning", ("discrete",)),
    "sac": Entry("sac", "SAC", "Soft actor-critic with learned temperature", ("continuous",)),
    "redq": Entry("redq", "REDQ", "SAC with many critics and many updates per step", ("continuous",)),
    "droq": Entry("droq", "DroQ", "SAC with dropout critics and many updates per step", ("continuous",)),
    "tqc": Entry("tqc", "TQC", "SAC with truncated quantile critics", ("continuous",)),
    "crossq": Entry("crossq", "CrossQ", "SAC with batch renormalization and no target networks", ("continuous",)),
    "rlpd": Entry("rlpd", "RLPD", "REDQ with prior data in every batch", ("continuous",), mixes_data=True),
    "discrete_sac": Entry("discrete_sac", "DiscreteSAC", "SAC with exact expectations over discrete actions", ("discrete",)),
    "ddpg": Entry("ddpg", "DDPG", "Deep deterministic policy gradient", ("continuous",)),
    "td3": Entry("td3", "TD3", "Twin delayed deterministic policy gradient", ("continuous",)),
    "ars": Entry("ars", "ARS", "Augmented random search, without gradients", _ALL, home="contrib"),
    "td3_bc": Entry("td3_bc", "TD3BC", "TD3 with behaviour cloning, for stored data", ("continuous",), offline=True),
    "rebrac": Entry("rebrac", "ReBRAC", "TD3+BC with a penalty in the critics too", ("continuous",), offline=True),
    "cql": Entry("cql", "CQL", "Conservative SAC or DQN, for stored data", ("discrete", "continuous"), offline=True),
    "cal_ql": Entry("cal_ql", "CalQL", "CQL for going on online", ("continuous",), offline=True),
    "iql": Entry("iql", "IQL", "Implicit Q-learning, for stored data", ("discrete", "continuous"), offline=True),
    "xql": Entry("xql", "XQL", "IQL with a soft maximum over stored actions", ("discrete", "continuous"), offline=True),
    "sac_n": Entry("sac_n", "SACN", "SAC with the smallest of many critics, for stored data", ("continuous",), offline=True),
    "edac": Entry("edac", "EDAC", "SAC-N with critics of diverse gradients, for stored data", ("continuous",), offline=True),
    "bcq": Entry("bcq", "BCQ", "Q-learning among actions the data may have", ("discrete", "continuous"), offline=True),
    "bear": Entry("bear", "BEAR", "Actor-critic within the support of stored data", ("continuous",), offline=True),
    "bc": Entry("bc", "BC", "Behaviour cloning of stored data", _ALL, offline=True),
    "awac": Entry("awac", "AWAC", "Advantage-weighted actor-critic, for stored data", ("continuous",), offline=True),
    "crr": Entry("crr", "CRR", "Critic-regularized regression, for stored data", ("continuous",), offline=True),
    "decision_transformer": Entry(
        "decision_transformer", "DecisionTransformer", "Stored episodes, imitated by their returns",
        ("discrete", "continuous"), home="contrib", offline=True,
    ),
    "marwil": Entry("marwil", "MARWIL", "Cloning weighted by how well stored episodes went on", _ALL, offline=True),
    "awr": Entry("awr", "AWR", "Advantage-weighted regression, for stored data", _ALL, offline=True),
}
_AGENTS = {entry.agent: name for name, entry in REGISTRY.items()}


def names() -> list[str]:
    """Every algorithm name, as used on the command line and in preset folders."""
    return list(REGISTRY)


def find(name: str) -> type[Agent]:
    """The agent class of an algorithm name."""
    if name not in REGISTRY:
        hint = did_you_mean(name, REGISTRY) or f"Known: {', '.join(REGISTRY)}."
        raise ConfigError(f"Unknown algorithm '{name}'. {hint}", fix="List: rl-training list algos")
    entry = REGISTRY[name]
    agent: type[Agent] = getattr(importlib.import_module(f"rl_training.{entry.home}.{entry.module}"), entry.agent)
    return agent


def __getattr__(name: str) -> Any:
    if name in _AGENTS:
        return find(_AGENTS[name])
    raise AttributeError(f"module 'rl_training.algorithms' has no attribute '{name}'")


__all__ = [
    "A2C", "AWAC", "AWR", "BC", "BCQ", "BEAR", "C51", "CQL", "CRR", "DDPG", "DQN", "EDAC", "IQL", "IQN", "MARWIL", "PPO",
    "QRDQN", "REDQ", "REGISTRY", "RLPD", "SAC", "SACN", "TD3", "TD3BC", "TQC", "TRPO", "XQL", "CalQL", "CrossQ",
    "DiscreteSAC", "DroQ", "Entry", "Rainbow", "ReBRAC", "find", "names",
]  # fmt: skip
