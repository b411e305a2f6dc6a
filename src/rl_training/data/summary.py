"""A dataset in numbers: how long, how good, how its episodes end, and what of the spaces it covers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rl_training.data.blocks import blocks
from rl_training.data.dataset import Dataset


@dataclass(frozen=True)
class Ends:
    """How many episodes ended in which way."""

    terminated: int
    time_limit: int
    cut: int
    unfinished: int


@dataclass(frozen=True)
class Dimension:
    """One number of an observation or action over all rows."""

    name: str
    low: float
    mean: float
    std: float
    high: float
    at_bounds: float  # share of rows at -1 or 1

    @property
    def constant(self) -> bool:
        return self.low == self.high


def leaves(value: Any, name: str) -> dict[str, NDArray[Any]]:
    """The arrays of an observation by name."""
    return {f"{name}.{key}": array for key, array in value.items()} if isinstance(value, dict) else {name: value}


def ends(dataset: Dataset, limit: int | None) -> Ends:
    """Cut episodes whose length is the environment's limit count as ended by it."""
    last = np.append(dataset.episode_starts()[1:], len(dataset)) - 1
    terminated, truncated = dataset.terminated[last], dataset.truncated[last] & ~dataset.terminated[last]
    at_limit = truncated & (lengths(dataset) == limit) if limit is not None else np.zeros(len(last), np.bool_)
    unfinished = ~terminated & ~truncated
    return Ends(*(int(flag.sum()) for flag in (terminated, at_limit, truncated & ~at_limit, unfinished)))


def lengths(dataset: Dataset) -> NDArray[np.int64]:
    """Steps of each episode."""
    return np.diff(dataset.episode_starts(), append=len(dataset))


def quartiles(values: NDArray[Any]) -> list[float]:
    """Minimum, first quartile, median, third quartile, maximum of the finite values."""
    finite = values[np.isfinite(values)]
    return [float(value) for value in np.quantile(finite, [0, 0.25, 0.5, 0.75, 1])] if len(finite) else [np.nan] * 5


def dimensions(values: NDArray[Any], name: str) -> list[Dimension]:
    """Every number of a column, apart from images, which count as one."""
    if values.ndim == 4 and values.dtype == np.uint8:
        return [_image(values, name)]
    flat = values.reshape(len(values), -1)
    found = []
    for index in range(flat.shape[1]):
        one = flat[:, index].astype(np.float64)
        one = one[np.isfinite(one)]
        if not len(one):
            one = np.array([np.nan])
        label = name if flat.shape[1] == 1 else f"{name}[{index}]"
        at_bounds = float((np.abs(one) >= 1.0).mean())
        found.append(Dimension(label, float(one.min()), float(one.mean()), float(one.std()), float(one.max()), at_bounds))
    return found


def _image(values: NDArray[np.uint8], name: str) -> Dimension:
    """All pixels as one number, counted by brightness: as floats they would take many times the memory."""
    counts = sum(np.bincount(values[rows].ravel(), minlength=256) for rows in blocks(values))
    levels = np.flatnonzero(counts)
    mean = float(np.average(levels, weights=np.asarray(counts)[levels]))
    std = float(np.sqrt(np.average((levels - mean) ** 2, weights=np.asarray(counts)[levels])))
    return Dimension(name, float(levels[0]), mean, std, float(levels[-1]), at_bounds=0.0)


def duplicates(dataset: Dataset) -> float:
    """The share of rows that repeat an earlier one in everything."""
    columns = [array for key, value in dataset.columns().items() for array in leaves(value, key).values()]
    hashes = np.concatenate([_hashes([column[rows] for column in columns]) for rows in blocks(*columns)])
    return 1.0 - len(np.unique(hashes)) / len(dataset)


def _hashes(columns: list[NDArray[Any]]) -> NDArray[np.uint64]:
    """A 64-bit number per row that equal rows share, and others all but never."""
    total = np.zeros(len(columns[0]), np.uint64)
    rng = np.random.default_rng(0)
    for column in columns:
        raw = np.ascontiguousarray(column).reshape(len(column), -1).view(np.uint8)
        if raw.shape[1] % 4 == 0:
            raw = raw.view(np.uint32)  # a quarter of the work
        weights = rng.integers(1, 2**63, raw.shape[1], np.uint64) * np.uint64(2) + np.uint64(1)
        total = (total ^ (total >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15) + (raw.astype(np.uint64) * weights).sum(1)
    return total
