"""Readers of stored experience, one module per layout, and the checks that all of them make.

Every check raises one ConfigError that names the file, the key in it and the row.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rl_training.data.blocks import first_row
from rl_training.errors import ConfigError
from rl_training.specs import ActionSpec, Leaf, ObsSpec

BOUND_TOLERANCE = 1e-3  # in units of half the range: what float32 and earlier conversions may have added

# What the libraries raise, besides their own kinds, when a file is cut short or its bytes were changed.
DAMAGE = (OSError, ValueError, LookupError, TypeError, AssertionError, RuntimeError, AttributeError)

OTHER_ENV = (
    "These are the data of another environment, or of one wrapped differently.",
    "Use a dataset of this environment, or the environment that the data were recorded in.",
)


@dataclass(frozen=True)
class Expected:
    """What the caller knows about the environment; None means: take what is stored."""

    obs: ObsSpec | None = None
    action: ActionSpec | None = None
    action_low: ArrayLike | None = None
    action_high: ArrayLike | None = None

    def bounds(self, size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The bounds of each of `size` action dimensions, [-1, 1] when unknown."""
        low = -1.0 if self.action_low is None else self.action_low
        high = 1.0 if self.action_high is None else self.action_high
        lowest, highest = (np.broadcast_to(np.asarray(bound, np.float64).ravel(), size) for bound in (low, high))
        return lowest, highest


def column(where: str, key: str, values: NDArray[Any], length: int) -> NDArray[Any]:
    """A column of `length` numbers."""
    if values.dtype.kind not in "fiub":
        raise ConfigError(f"{where}: {key} holds {values.dtype}, and not numbers.", fix="Store it as float32 or bool.")
    found = len(values) if values.ndim else 0
    if found != length:
        raise ConfigError(
            f"{where}: {key} has {found:,} rows where {length:,} are expected.",
            "All keys describe the same steps, so their lengths must agree.",
            "Write or download the dataset again.",
        )
    return values


def numbers(where: str, key: str, values: NDArray[Any], length: int) -> NDArray[Any]:
    """A column of `length` finite numbers."""
    values = column(where, key, values, length)
    if values.dtype.kind == "f" and (row := first_row(lambda block: ~np.isfinite(block), values)) is not None:
        one = np.ravel(values[row])
        raise ConfigError(
            f"{where}: {key} row {row} is {one[~np.isfinite(one)][0]}.",
            "One such value makes every weight NaN.",
            "Leave out the episode that it belongs to, and write the dataset again.",
        )
    return values


def scalars(where: str, key: str, values: NDArray[Any], length: int) -> NDArray[Any]:
    """One number per row; the (M, 1) columns of some files are squeezed."""
    values = numbers(where, key, values, length)
    if values.shape[1:] not in ((), (1,)):
        raise ConfigError(
            f"{where}: {key} has shape {values.shape}: one number per row is expected.", fix="Write the dataset again."
        )
    return values.reshape(length)


def rewards(where: str, key: str, values: NDArray[Any], length: int) -> NDArray[np.float32]:
    """One float32 per row."""
    return _float32(where, key, scalars(where, key, values, length))


def flags(where: str, key: str, values: NDArray[Any], length: int) -> NDArray[np.bool_]:
    """One bool per row; files store them as bool, 0/1 or 0.0/1.0."""
    values = scalars(where, key, values, length)
    if values.dtype.kind != "b" and (row := first_row(lambda block: (block != 0) & (block != 1), values)) is not None:
        raise ConfigError(f"{where}: {key} row {row} is {values[row]}.", "It is a flag, so it must be 0 or 1.")
    return values.astype(np.bool_, copy=False)


def observations(where: str, key: str, values: Any, length: int, spec: ObsSpec | None) -> Any:
    """Observations as the environment gives them: an array, or a dict with exactly its keys."""
    expected = None if spec is None else [leaf.key for leaf in spec.leaves] if spec.is_dict else []
    stored = list(values) if isinstance(values, dict) else []
    if expected is not None and set(stored) != set(expected):
        raise ConfigError(
            f"{where}: {key} has {_keys(stored)}, and the environment gives {_keys(expected)}.", *OTHER_ENV
        )
    leaves = {} if spec is None else {leaf.key: leaf for leaf in spec.leaves}
    if not isinstance(values, dict):
        return _leaf(where, key, values, length, leaves.get(""))
    return {part: _leaf(where, f"{key}.{part}", values[part], length, leaves.get(part)) for part in leaves or stored}


def _leaf(where: str, key: str, values: NDArray[Any], length: int, leaf: Leaf | None) -> NDArray[Any]:
    values = numbers(where, key, values, length)
    shape = values.shape[1:]
    image = values.dtype == np.uint8 and len(shape) == 3
    if leaf is not None and shape != leaf.shape:
        raise ConfigError(
            f"{where}: {key} has {_size(shape)} per step, and the environment gives {_size(leaf.shape)}.", *OTHER_ENV
        )
    if leaf is not None and leaf.is_image != image:
        raise ConfigError(
            f"{where}: {key} is stored as {values.dtype}, and the environment gives {leaf.dtype}.", *OTHER_ENV
        )
    return values if image else _float32(where, key, values)


def actions(
    where: str, key: str, values: NDArray[Any], length: int, expected: Expected, *, scaled: bool = False
) -> NDArray[Any]:
    """Actions as algorithms see them: int64 from 0, or float32 in [-1, 1] (`scaled`: they are stored like that)."""
    values = numbers(where, key, values, length)
    flat = values.reshape(length, int(np.prod(values.shape[1:])))
    spec = expected.action or ActionSpec("continuous" if values.dtype.kind == "f" else "discrete")
    bounds = 0 if expected.action_low is None else np.size(expected.action_low)
    size = spec.dim or len(spec.nvec) or (bounds if bounds > 1 else flat.shape[1])
    if flat.shape[1] != size:
        raise ConfigError(
            f"{where}: {key} has {_size(values.shape[1:])} per step, and the environment takes {_size((size,))}.",
            *OTHER_ENV,
        )
    if spec.kind == "continuous":
        return _unit(where, key, flat, expected, scaled)
    limit = np.asarray(spec.nvec or np.inf)

    def impossible(block: NDArray[Any]) -> NDArray[np.bool_]:
        return np.asarray((block != np.floor(block)) | (block < 0) | (block >= limit))

    if (row := first_row(impossible, flat)) is not None:
        column = int(np.argmax(impossible(flat[row])))
        largest = f"0 to {spec.nvec[column] - 1}" if spec.nvec else "0 and up"
        raise ConfigError(
            f"{where}: {key} row {row} is {flat[row, column]}: the choices are {largest}, whole numbers.", *OTHER_ENV
        )
    return flat.astype(np.int64, copy=False).reshape((length, *spec.shape) if spec.nvec else values.shape)


def _unit(where: str, key: str, flat: NDArray[Any], expected: Expected, scaled: bool) -> NDArray[np.float32]:
    low, high, bounded = scaling(flat.shape[1], expected, scaled)
    unit = _float32(where, key, flat)
    if not scaled:
        unit = unit.copy()
        unit[:, bounded] = to_unit(flat, low, high, bounded)
    if (row := first_row(lambda block: bounded & ~(np.abs(block) <= 1 + BOUND_TOLERANCE), unit)) is not None:
        column = int(np.argmax(bounded & ~(np.abs(unit[row]) <= 1 + BOUND_TOLERANCE)))
        unknown = not scaled and expected.action_low is None
        advice = ("Without bounds, actions must be in [-1, 1].", "Give action_low and action_high.")
        raise ConfigError(
            f"{where}: {key} row {row} is {flat[row, column]:g} in dimension {column}, "
            f"outside {low[column]:g} to {high[column]:g}.",
            *(advice if unknown else OTHER_ENV),
        )
    if first_row(lambda block: bounded & (np.abs(block) > 1.0), unit) is not None:
        unit = unit.copy()
        unit[:, bounded] = unit[:, bounded].clip(-1.0, 1.0)
    return unit


def scaling(
    size: int, expected: Expected, scaled: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """The stored bounds of each action dimension, and which have two of them; the others pass through, as in the environment."""
    low, high = expected.bounds(size)
    bounded = np.isfinite(low) & np.isfinite(high)
    if scaled:
        low, high = np.full_like(low, -1.0), np.full_like(high, 1.0)
    return low, high, bounded


def to_unit(
    flat: NDArray[Any], low: NDArray[np.float64], high: NDArray[np.float64], bounded: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The bounded dimensions, brought from their bounds to [-1, 1]."""
    centre, half = (high + low)[bounded] / 2, (high - low)[bounded] / 2
    return np.asarray((flat[:, bounded] - centre) / half)


def _float32(where: str, key: str, values: NDArray[Any]) -> NDArray[np.float32]:
    if values.dtype == np.float32:
        return values
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    return numbers(where, key, narrow, len(values))  # again, as 1e300 is finite only in float64


def sha256(path: Path) -> str:
    """The hash of a file, or of the names and contents of all files in a folder."""
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    digest = hashlib.sha256()
    for file_path in sorted(p for p in path.rglob("*") if p.is_file()):
        digest.update(f"{file_path.relative_to(path).as_posix()}\0{sha256(file_path)}\n".encode())
    return digest.hexdigest()


def _size(shape: tuple[int, ...]) -> str:
    count = int(np.prod(shape))
    return f"shape {shape}" if len(shape) > 1 else f"{count} number{'s' * (count != 1)}"


def _keys(keys: list[str]) -> str:
    return f"keys {', '.join(sorted(keys))}" if keys else "one array"
