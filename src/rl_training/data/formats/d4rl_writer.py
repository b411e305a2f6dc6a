"""Writing D4RL's flat HDF5 files, for tools that read nothing else."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from rl_training import _atomic
from rl_training.data.dataset import Dataset
from rl_training.data.formats.native import refuse_existing
from rl_training.envs.spaces import action_translator
from rl_training.errors import ConfigError, MissingExtraError


def write_d4rl(dataset: Dataset, path: str | Path, action_space: gym.Space[Any] | None = None) -> None:
    """One file with every row; a row that was cut has `timeouts` set and its true successor in `next_observations`.

    With `action_space`, actions are in the units of the environment, as D4RL's are; otherwise continuous ones are in [-1, 1].
    D4RL's own reading leaves out rows with a timeout; `read_d4rl(..., keep_timeouts=True)` gives all of them back.
    """
    try:
        import h5py
    except ImportError:
        raise MissingExtraError("Writing HDF5 datasets", "minari") from None
    path = Path(path)
    refuse_existing(path)
    if isinstance(dataset.obs, dict):
        raise ConfigError(
            f"{dataset.source} has observations with the keys {', '.join(dataset.obs)}: D4RL's files hold one array.",
            fix="Convert it to minari:NAME or to a folder of ours",
        )
    action = dataset.action
    if isinstance(action_space, gym.spaces.Box):
        action = action_translator(action_space, len(dataset))(action).reshape(action.shape)
    memory = io.BytesIO()
    with h5py.File(memory, "w") as file:
        for key, column in {
            "observations": dataset.obs,
            "actions": action,
            "rewards": dataset.reward,
            "terminals": dataset.terminated,
            "timeouts": dataset.truncated & ~dataset.terminated,
            "next_observations": dataset.next_obs,
        }.items():
            file.create_dataset(key, data=np.ascontiguousarray(column), compression="gzip")
    _atomic.make_dir(path.parent)
    _atomic.write_bytes(path, memory.getvalue())
