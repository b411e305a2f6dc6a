"""Stored experience as it is, with whatever is wrong in it: for looking at data that the readers refuse, and mending them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rl_training.data.batch import tree_map
from rl_training.data.dataset import Dataset, load_dataset
from rl_training.data.formats import Expected, column, scaling, sha256, to_unit
from rl_training.errors import ConfigError


def read_unchecked(path_or_id: str, expected: Expected, max_episode_steps: int) -> Dataset:
    """Every row of a dataset, in the form of `load_dataset` but with values as they are stored.

    A D4RL file with `next_observations` gives all its rows with their stored successors, so that these can be compared.
    """
    if path_or_id.startswith("minari:"):
        from rl_training.data.formats.minari import read_minari_unchecked

        return read_minari_unchecked(path_or_id.removeprefix("minari:"), expected)
    path = Path(path_or_id)
    if path.is_dir():
        return _folder(path, expected)
    if path.is_file() and path.suffix in (".hdf5", ".h5"):
        return _d4rl(path, expected, max_episode_steps)
    return load_dataset(path_or_id)  # which says what a dataset is


def unchecked(where: str, columns: dict[str, Any], expected: Expected, *, scaled: bool = False) -> dict[str, Any]:
    """Columns of one length in our types; continuous actions brought to [-1, 1] but not clipped."""
    count = len(columns["reward"]) if columns["reward"].ndim else 0
    for key, values in columns.items():
        tree_map(lambda a, key=key: column(where, key, a, count), values)  # type: ignore[misc]
    if not count:
        raise ConfigError(f"{where} holds no transitions.", fix="Copy or record the dataset again.")
    for key in ("reward", "terminated", "truncated"):
        if columns[key].size != count:
            raise ConfigError(f"{where}: {key} has shape {columns[key].shape}: one number per row is expected.")
    shapes = [tree_map(np.shape, columns[key]) for key in ("obs", "next_obs")]
    if shapes[0] != shapes[1]:
        raise ConfigError(f"{where}: obs has shape {shapes[0]}, and next_obs {shapes[1]}.")
    action = _action(columns["action"].reshape(count, -1), expected, scaled)
    discrete = action.shape[1] == 1 and action.dtype == np.int64
    return {
        "obs": tree_map(_narrow, columns["obs"]),
        "action": action.ravel() if discrete else action,
        "reward": _narrow(columns["reward"].reshape(count)),
        "terminated": columns["terminated"].reshape(count) != 0,
        "truncated": columns["truncated"].reshape(count) != 0,
        "next_obs": tree_map(_narrow, columns["next_obs"]),
    }


def _folder(folder: Path, expected: Expected) -> Dataset:
    from rl_training.data.formats.native import DATA, read_columns

    manifest, where, columns = read_columns(folder, mmap=True)
    about = {"name": manifest["name"], "sha256": manifest["sha256"][DATA], "env_id": manifest["env_id"]}
    return Dataset(**unchecked(where, columns, expected, scaled=True), source=str(folder), **about)


def _d4rl(path: Path, expected: Expected, max_episode_steps: int) -> Dataset:
    from rl_training.data.formats.d4rl import MANDATORY, counted_timeouts, read_columns, transitions

    stored = read_columns(path, (*MANDATORY, "timeouts", "next_observations"))
    count = len(stored["rewards"]) if stored["rewards"].ndim else 0
    terminated = stored["terminals"].reshape(-1) != 0
    timeouts = stored["timeouts"] if "timeouts" in stored else counted_timeouts(terminated, max_episode_steps)
    columns = unchecked(
        str(path),
        {
            "obs": stored["observations"],
            "action": stored["actions"],
            "reward": stored["rewards"],
            "terminated": terminated,
            "truncated": timeouts,
            "next_obs": stored.get("next_observations", stored["observations"]),
        },
        expected,
    )
    if "next_observations" in stored:
        return Dataset(**columns, name=path.stem, sha256=sha256(path), source=str(path))
    if count < 2:
        raise ConfigError(f"{path} holds {count} steps: a transition needs two.", fix="Download or convert the file again.")
    timeout = columns.pop("truncated")
    del columns["next_obs"]
    return transitions(path, columns, timeout)


def _action(flat: NDArray[Any], expected: Expected, scaled: bool) -> NDArray[Any]:
    discrete = flat.dtype.kind != "f" if expected.action is None else expected.action.kind != "continuous"
    if discrete:
        whole = bool((flat == np.floor(flat)).all())  # not where one is NaN
        return flat.astype(np.int64) if whole else _narrow(flat)
    if expected.action_low is not None and np.size(expected.action_low) not in (1, flat.shape[1]):
        expected = Expected()  # of another environment, which the reader says
    low, high, bounded = scaling(flat.shape[1], expected, scaled)
    unit = _narrow(flat).copy()
    unit[:, bounded] = to_unit(flat, low, high, bounded)
    return unit


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype == np.uint8 and values.ndim == 4:
        return values
    with np.errstate(over="ignore"):
        return values.astype(np.float32, copy=False)
