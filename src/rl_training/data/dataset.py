"""Stored experience: one row per step, episodes one after another, each row with its true successor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rl_training.data.batch import Chunk, tree_map
from rl_training.errors import ConfigError, did_you_mean
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, eq=False)
class Dataset:
    """M transitions in the order they happened; continuous actions are in [-1, 1].

    An episode ends where `terminated` or `truncated` is set, and at the last row. `sha256` is the hash of what was
    loaded; it stays the same when rows are filtered or rewards are scaled: a run records which data it began with.
    """

    obs: Any
    action: NDArray[Any]
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    next_obs: Any
    name: str
    sha256: str
    source: str
    env_id: str | None = None

    def __len__(self) -> int:
        return len(self.reward)

    def columns(self) -> Chunk:
        """The (M, ...) arrays by name."""
        return {
            "obs": self.obs,
            "action": self.action,
            "reward": self.reward,
            "terminated": self.terminated,
            "truncated": self.truncated,
            "next_obs": self.next_obs,
        }

    def chunks(self, rows: int) -> Iterator[Chunk]:
        """All steps as those of a single environment, (T, 1, ...), so many at a time: mapped data need not fit into memory."""
        for start in range(0, len(self), rows):
            yield {key: tree_map(itemgetter((slice(start, start + rows), None)), a) for key, a in self.columns().items()}

    def episode_starts(self) -> NDArray[np.int64]:
        """The first row of every episode."""
        ends = self.terminated | self.truncated
        return np.concatenate([[0], np.flatnonzero(ends[:-1]) + 1])  # the last row ends its episode, flagged or not

    def episode_returns(self) -> NDArray[np.float64]:
        """The undiscounted sum of rewards of every episode."""
        return np.add.reduceat(self.reward.astype(np.float64), self.episode_starts())

    def return_range(self) -> float:
        """Highest minus lowest episode return: IQL scales locomotion rewards by 1000 / this."""
        return float(np.ptp(self.episode_returns()))

    def filter(self, fraction: float) -> Dataset:
        """Only the best `fraction` of the episodes by return (at least one), in their old order."""
        if not 0.0 < fraction <= 1.0:
            raise ConfigError(f"The fraction of episodes to keep is {fraction}: it must be above 0 and at most 1.")
        if fraction == 1.0:
            return self
        starts, returns = self.episode_starts(), self.episode_returns()
        count = max(1, int(fraction * len(starts) + 1e-9))  # 0.29 * 100 is 28.999...: meant as 29
        kept = np.zeros(len(starts), np.bool_)
        kept[np.argsort(-returns, kind="stable")[:count]] = True
        rows = np.repeat(kept, np.diff(starts, append=len(self)))
        return replace(self, **{key: tree_map(lambda a: a[rows], column) for key, column in self.columns().items()})

    def scaled(self, scale: float, bias: float = 0.0) -> Dataset:
        """The same steps with rewards `reward * scale + bias`."""
        return replace(self, reward=(self.reward * scale + bias).astype(np.float32))


def load_dataset(
    path_or_id: str,
    obs: ObsSpec | None = None,
    action: ActionSpec | None = None,
    action_low: ArrayLike | None = None,
    action_high: ArrayLike | None = None,
    *,
    max_episode_steps: int = 1000,
    mmap: bool = False,
) -> Dataset:
    """Read a D4RL file (.hdf5, .h5), a folder made by `write_dataset`, or `minari:ID`.

    With `obs` and `action`, data of another environment are refused. Actions between `action_low` and `action_high` are
    brought to [-1, 1]; without bounds they must be there already (Minari knows its own). Our own folders hold scaled
    actions, so there the bounds only say which dimensions have any. `max_episode_steps` finds the time limits of old
    D4RL files without `timeouts`. With `mmap`, the arrays of our own folders are views of the file, so that data larger than the
    memory can be read; the other layouts have to be converted first.
    """
    from rl_training.data.formats import Expected

    expected = Expected(obs, action, action_low, action_high)
    if mmap and not Path(path_or_id).is_dir() and (path_or_id.startswith("minari:") or Path(path_or_id).is_file()):
        raise ConfigError(
            f"{path_or_id} cannot be read from its file step by step.",
            "Its layout keeps observations once, or compressed.",
            f"Convert it first: rl-training data convert {path_or_id} DIR",
        )
    if path_or_id.startswith("minari:"):
        from rl_training.data.formats.minari import read_minari

        return read_minari(path_or_id.removeprefix("minari:"), expected)
    path = Path(path_or_id)
    if path.is_dir():
        from rl_training.data.formats.native import read_dataset

        return read_dataset(path, expected, mmap=mmap)
    if path.is_file() and path.suffix in (".hdf5", ".h5"):
        from rl_training.data.formats.d4rl import read_d4rl

        return read_d4rl(path, expected, max_episode_steps=max_episode_steps)
    raise ConfigError(
        f"{path} is not a kind of dataset that can be read." if path.is_file() else f"There is no dataset {path}.",
        "A dataset is a D4RL file (.hdf5 or .h5), a folder of our own format, or minari:NAME.",
        _near(path) or "To download one: minari list remote, minari download NAME, then name it as minari:NAME.",
    )


def _near(path: Path) -> str:
    beside = path.parent.iterdir() if path.parent.is_dir() and not path.exists() else ()
    return did_you_mean(path.name, (p.name for p in beside), f"Did you mean {path.parent / '{}'}?")
