"""Going over large columns a few rows at a time, so that looking at them takes little memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 20  # numbers that are looked at together


def first_row(wrong: Callable[..., NDArray[np.bool_]], *columns: NDArray[Any]) -> int | None:
    """The first row of columns of one length of which `wrong` holds anywhere; None where it holds nowhere."""
    for rows in blocks(*columns):
        found = wrong(*(column[rows] for column in columns))
        if found.any():
            return rows.start + int(np.argmax(found.reshape(len(found), -1).any(1)))
    return None


def blocks(*columns: NDArray[Any]) -> Iterator[slice]:
    """The rows of columns of one length, a few at a time: so many that the widest column gives about `BLOCK` numbers."""
    count = len(columns[0])
    step = max(1, BLOCK // max(column[:1].size for column in columns)) if count else 1
    yield from (slice(start, min(start + step, count)) for start in range(0, count, step))
