"""D4RL's flat HDF5 files: observations, actions, rewards, terminals, timeouts, all of one length."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rl_training.data.dataset import Dataset
from rl_training.data.formats import DAMAGE, Expected, actions, flags, observations, rewards, sha256
from rl_training.errors import ConfigError, MissingExtraError

MANDATORY = ("observations", "actions", "rewards", "terminals")
OPTIONAL = ("timeouts", "next_observations")
MAX_COMPRESSION = 1100  # deflate reaches 1032; a file that declares more than this times its size does not hold it
AGAIN = "Download or convert the file again."


def read_d4rl(
    path: Path, expected: Expected | None = None, *, keep_timeouts: bool = False, max_episode_steps: int = 1000
) -> Dataset:
    """Transitions as D4RL's own `qlearning_dataset` makes them.

    The successor of row i is observation i + 1. A row with a timeout is dropped, since its successor would be the next
    reset, and so is the last row; the row before a dropped one is marked truncated. `keep_timeouts=True` keeps every
    row instead, with the file's `next_observations`. Without `timeouts`, episodes are cut after `max_episode_steps`.
    """
    expected = expected or Expected()
    where = str(path)
    columns = read_columns(path, (*MANDATORY, "timeouts", *["next_observations"] * keep_timeouts))
    count = len(columns["observations"]) if columns["observations"].ndim else 0
    if count < 2:
        raise ConfigError(f"{where} holds {count} steps: a transition needs two.", fix=AGAIN)
    obs = observations(where, "observations", columns["observations"], count, expected.obs)
    action = actions(where, "actions", columns["actions"], count, expected)
    reward = rewards(where, "rewards", columns["rewards"], count)
    terminated = flags(where, "terminals", columns["terminals"], count)
    if "timeouts" in columns:
        timeout = flags(where, "timeouts", columns["timeouts"], count)
        _refuse_merged_flags(where, terminated, timeout, keep_timeouts)
    else:
        timeout = counted_timeouts(terminated, max_episode_steps)
    next_obs = None
    if keep_timeouts:
        if "next_observations" not in columns:
            raise ConfigError(
                f"{where} has no next_observations, so rows with a timeout cannot be kept.",
                "The observation after the cut was not stored.",
                "Read it with keep_timeouts=False.",
            )
        next_obs = observations(where, "next_observations", columns["next_observations"], count, expected.obs)
    stored = {"obs": obs, "action": action, "reward": reward, "terminated": terminated}
    return transitions(path, stored, timeout, next_obs)


def transitions(path: Path, columns: dict[str, Any], timeout: NDArray[np.bool_], next_obs: Any = None) -> Dataset:
    """The rows that have a successor: all where `next_obs` is given, else those that D4RL's own reading keeps."""
    if next_obs is not None:
        rows = np.arange(len(timeout))
        truncated = timeout & ~columns["terminated"]
    else:
        rows = np.flatnonzero(~timeout[:-1])
        truncated = np.append(timeout[1:], False) & ~columns["terminated"]
        next_obs = columns["obs"][1:]
    if not len(rows):
        raise ConfigError(f"{path} holds no complete transition: every row is a timeout.", fix=AGAIN)
    return Dataset(
        **{key: values[rows] for key, values in columns.items()},
        truncated=truncated[rows],
        next_obs=next_obs[rows],
        name=path.stem,
        sha256=sha256(path),
        source=str(path),
    )


def _refuse_merged_flags(
    where: str, terminated: NDArray[np.bool_], timeout: NDArray[np.bool_], keep_timeouts: bool
) -> None:
    both = terminated & timeout
    # AntMaze files set both where the next episode starts at the goal: single rows, dropped anyway, so they do no harm.
    if both.any() and (keep_timeouts or not (timeout & ~terminated).any()):
        raise ConfigError(
            f"{where}: terminals and timeouts are both set in row {int(np.argmax(both))}.",
            "An episode that ended has no value after it, one that was cut has: the row cannot be both.",
            "Set terminals only where the task itself ended, and write the file again.",
        )


def counted_timeouts(terminated: NDArray[np.bool_], limit: int) -> NDArray[np.bool_]:
    """Where episodes were cut in files that do not say so: after `limit` steps from the last termination."""
    rows = np.arange(len(terminated))
    after_terminal = np.append(0, np.where(terminated, rows + 1, 0)[:-1])
    return (rows - np.maximum.accumulate(after_terminal)) % limit == limit - 1


def has_successors(path: Path) -> bool:
    """Whether the file says where each row led."""
    with open_hdf5(path) as file:
        return "next_observations" in file


def read_columns(path: Path, keys: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """The arrays of these keys that the file has, unchecked; the mandatory ones must be there."""
    with open_hdf5(path) as file:
        names = sorted(file)
        missing = [key for key in MANDATORY if key not in names]
        if missing:
            episodes = any(name.startswith("episode_") for name in names)
            raise ConfigError(
                f"{path}: missing {', '.join(missing)}.",
                f"Found: {', '.join(names[:12]) or 'nothing'}. Expected: {', '.join(MANDATORY)} and perhaps "
                f"{', '.join(OPTIONAL)}.",
                "This is a Minari file: name its dataset as minari:NAME." if episodes else AGAIN,
            )
        return {key: _column(file, path, key) for key in keys if key in names}


def _column(file: Any, path: Path, key: str) -> NDArray[Any]:
    import h5py

    if not is_stored_here(file.get(key, getlink=True)):
        raise link_refused(path, key)
    stored = file[key]
    if not isinstance(stored, h5py.Dataset):
        raise ConfigError(f"{path}: {key} is a group, and an array is expected.", fix=AGAIN)
    if stored.is_virtual or stored.external:
        raise ConfigError(f"{path}: the numbers of {key} are kept in another file, which is not followed.", fix=AGAIN)
    if stored.dtype.kind not in "fiub":
        raise ConfigError(f"{path}: {key} holds {stored.dtype}, and not numbers.", fix=AGAIN)
    if stored.nbytes > MAX_COMPRESSION * path.stat().st_size:
        raise ConfigError(
            f"{path}: {key} declares shape {stored.shape}, far more than the file can hold.",
            "The file is damaged, or made to fill the memory.",
            AGAIN,
        )
    return stored[...]


def is_stored_here(link: Any) -> bool:
    """Whether an HDF5 link leads into its own file; others could read any file of this machine."""
    import h5py

    return isinstance(link, h5py.HardLink)


def link_refused(path: Path, key: str) -> ConfigError:
    """The error for a link that is not stored in the file itself."""
    return ConfigError(f"{path}: {key} is a link to somewhere else, which is not followed.", fix=AGAIN)


@contextmanager
def open_hdf5(path: Path) -> Iterator[Any]:
    """Open for reading only; whatever is wrong with the bytes becomes a ConfigError."""
    try:
        import h5py
    except ImportError:
        raise MissingExtraError("Reading HDF5 datasets", "minari") from None
    if not h5py.is_hdf5(path):
        with path.open("rb") as raw:
            start = raw.read(16)
        raise ConfigError(f"{path} is not an HDF5 file.", f"It begins with {start!r}.", AGAIN)
    try:
        with h5py.File(path, "r") as file:
            yield file
    except DAMAGE as error:
        raise ConfigError(f"{path} is cut short or damaged.", str(error), AGAIN) from error
