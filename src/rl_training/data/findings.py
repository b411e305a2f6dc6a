"""What is wrong or odd in a dataset: each finding says what was seen, where, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rl_training.data.blocks import blocks
from rl_training.data.dataset import Dataset
from rl_training.data.formats import BOUND_TOLERANCE
from rl_training.data.summary import leaves, lengths

REPAIR = "--repair OUT"


@dataclass(frozen=True)
class Finding:
    """`fatal` data are refused by the reader."""

    what: str
    todo: str
    fatal: bool = False


def find(dataset: Dataset, limit: int | None) -> list[Finding]:
    """All findings; `limit` is the number of steps after which the environment cuts episodes."""
    return [
        *_not_finite(dataset),
        *_both_flags(dataset),
        *_outside(dataset),
        *_broken_continuity(dataset),
        *_too_long(dataset, limit),
        *_constant(dataset),
        *_trailing(dataset),
    ]


def not_finite(dataset: Dataset) -> NDArray[np.bool_]:
    """Rows with a NaN or an infinity anywhere."""
    bad = np.zeros(len(dataset), np.bool_)
    for key, value in dataset.columns().items():
        for column in leaves(value, key).values():
            if column.dtype.kind == "f":
                bad |= ~np.isfinite(column).reshape(len(column), -1).all(1)
    return bad


def discontinuous(dataset: Dataset) -> NDArray[np.int64]:
    """Rows inside an episode whose successor is not the observation of the next row."""
    inside = ~(dataset.terminated | dataset.truncated)
    broken = np.zeros(len(dataset) - 1, np.bool_)
    after, before = leaves(dataset.next_obs, "obs"), leaves(dataset.obs, "obs")
    for key in after:
        successors, following = after[key][:-1], before[key][1:]
        for rows in blocks(successors):
            broken[rows] |= _differ(successors[rows], following[rows])
    return np.flatnonzero(broken & inside[:-1])


def _differ(successor: NDArray[Any], following: NDArray[Any]) -> NDArray[np.bool_]:
    """Rows that are not the same, but for rounding; what is not finite has a finding of its own."""
    if successor.dtype == np.uint8:
        same = successor == following
    else:
        with np.errstate(invalid="ignore"):
            same = np.abs(successor - following) <= 1e-5 * (1.0 + np.abs(following))
        same |= ~np.isfinite(successor) | ~np.isfinite(following)
    return ~same.reshape(len(same), -1).all(1)


def excess(dataset: Dataset) -> NDArray[np.float32]:
    """By how much each row's action is outside [-1, 1]; zeros where actions are choices."""
    if dataset.action.dtype != np.float32:
        return np.zeros(len(dataset), np.float32)
    flat = np.abs(dataset.action.reshape(len(dataset), -1))
    return np.asarray(np.nan_to_num(flat - 1.0, nan=0.0, posinf=0.0).clip(0.0).max(1))


def _not_finite(dataset: Dataset) -> list[Finding]:
    found = []
    for key, value in dataset.columns().items():
        for name, column in leaves(value, key).items():
            if column.dtype.kind == "f" and len(rows := np.flatnonzero(~np.isfinite(column).reshape(len(column), -1).all(1))):
                what = f"{name} is NaN or infinite in {_rows(rows)}"
                found.append(Finding(what, f"one makes every weight NaN: {REPAIR} drops their episodes", fatal=True))
    return found


def _both_flags(dataset: Dataset) -> list[Finding]:
    rows = np.flatnonzero(dataset.terminated & dataset.truncated)
    what = f"terminated and truncated are both set in {_rows(rows)}"
    todo = f"an end has no value after it, a cut has: {REPAIR} keeps the end"
    return [Finding(what, todo, fatal=True)] if len(rows) else []


def _outside(dataset: Dataset) -> list[Finding]:
    outside = excess(dataset)
    rounding, far = np.flatnonzero((outside > 0) & (outside <= BOUND_TOLERANCE)), np.flatnonzero(outside > BOUND_TOLERANCE)
    found = []
    if len(rounding):
        what = f"actions are outside their bounds by a rounding error (up to {outside[rounding].max():.1e}) in {_rows(rounding)}"
        found.append(Finding(what, f"they are clipped when read: {REPAIR} stores them so"))
    if len(far):
        what = f"actions are outside their bounds, by up to {outside[far].max():.3g} of half the range, in {_rows(far)}"
        found.append(Finding(what, "name the environment with --env, or record the data again: what was done is unknown", True))
    return found


def _broken_continuity(dataset: Dataset) -> list[Finding]:
    rows = discontinuous(dataset)
    what = f"next_obs is not the next row's obs, inside an episode, in {_rows(rows)}"
    todo = f"n-step returns and sequences would cross the gap: {REPAIR} ends the episode there"
    return [Finding(what, todo)] if len(rows) else []


def _too_long(dataset: Dataset, limit: int | None) -> list[Finding]:
    long = lengths(dataset) > (limit or np.inf)
    if not long.any():
        return []
    first = dataset.episode_starts()[long][0]
    what = f"{long.sum():,} of {len(long):,} episodes are longer than the environment's {limit:,} steps (first at row {first:,})"
    return [Finding(what, "ends are missing, or the time limit was another: returns do not compare with the environment's")]


def _constant(dataset: Dataset) -> list[Finding]:
    found = []
    if len(dataset) > 1 and (dataset.action == dataset.action[0]).all():
        todo = "nothing can be learned about other actions: add random steps"
        found.append(Finding(f"every action is {dataset.action[0]}", todo))
    if len(dataset) > 1 and (dataset.reward == dataset.reward[0]).all():
        value = float(dataset.reward[0])
        todo = "only ends tell good from bad" if dataset.terminated.any() else "there is nothing to learn: check the rewards"
        found.append(Finding(f"every reward is {value:g}", todo))
    return found


def _trailing(dataset: Dataset) -> list[Finding]:
    if dataset.terminated[-1] or dataset.truncated[-1]:
        return []
    what = "the last episode has no end"
    return [Finding(what, f"it counts as cut off at the last row: {REPAIR} marks it so")]


def _rows(rows: NDArray[np.int64]) -> str:
    shown = ", ".join(f"{row:,}" for row in rows[:3])
    return f"row {shown}" if len(rows) == 1 else f"{len(rows):,} rows ({shown}{', ...' if len(rows) > 3 else ''})"
