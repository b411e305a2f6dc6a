"""Calibrated Q-learning (Nakamoto et al. 2023, arXiv:2303.05479): CQL that goes no lower than what the data returned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from rl_training.algorithms.base import Batch
from rl_training.algorithms.cql import CQL, ConservativeConfig, CQLAlgorithm
from rl_training.config import setting
from rl_training.data.extras import MC_RETURN


@dataclass(frozen=True, kw_only=True)
class CalQLConfig(ConservativeConfig):
    max_target_backup: bool = setting(True, help="take the best of `samples` next actions for the target")


class CalQLAlgorithm(CQLAlgorithm):
    """CQL in which the policy's actions count as worth at least what followed in the data, so that the critics keep its scale."""

    def pushed_down(self, q: Tensor, log_density: Tensor, batch: Batch) -> Tensor:
        first = 1 + self.config.samples  # before it: the data's action and random ones
        # The return is that of the state: it also bounds the actions that the policy would take one step later.
        policy = torch.maximum(q[:, first:], batch["mc_return"])
        return super().pushed_down(torch.cat([q[:, :first], policy], 1), log_density, batch)


class CalQL(CQL):
    """Cal-QL on stored data, then online. `CalQL("Pendulum-v1", dataset="data/mixed", offline_updates=20_000).learn(10_000)`."""

    name = "cal_ql"
    config_class: ClassVar[type] = CalQLConfig
    algorithm: ClassVar[type[CQLAlgorithm]] = CalQLAlgorithm
    defaults: ClassVar[dict[str, Any]] = CQL.defaults | {"data.offline_fraction": 0.5}
    extras: ClassVar[frozenset[str]] = frozenset({MC_RETURN})
