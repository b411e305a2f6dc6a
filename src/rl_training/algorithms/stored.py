"""What every algorithm that can learn from stored data has in common: how batches of a dataset are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rl_training.config import TrainConfig, setting
from rl_training.data.dataset import Dataset
from rl_training.data.dataset_buffer import DatasetBuffer
from rl_training.data.storage import NO_EXTRAS
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class StoredConfig:
    batch_size: int = setting(256, help="transitions per update", ge=1)


def scratch(config: TrainConfig) -> Path | None:
    """The folder for rows on disk; None where they are in memory."""
    return Path(config.output_dir) if config.data.memory_map else None


def dataset_buffers(
    config: TrainConfig,
    obs: ObsSpec,
    action: ActionSpec,
    *,
    gamma: float = 0.0,
    n_step: int = 1,
    extras: frozenset[str] = NO_EXTRAS,
) -> Callable[[Dataset], DatasetBuffer]:
    """What makes the buffer once the data are there; `extras` is what batches hold besides the transitions."""

    def make(dataset: Dataset) -> DatasetBuffer:
        return DatasetBuffer(
            dataset, obs, action, batch_size=config.algorithm.batch_size, gamma=gamma, n_step=n_step, extras=extras,
            scratch=scratch(config), seed=config.seed,
        )  # fmt: skip

    return make
