"""Rings cut into versioned chunks, so that a checkpoint writes only what is new."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rl_training.state import ChunkedArray

CHUNK_ROWS = 16_384


def chunked(name: str, ring: NDArray[Any], written: NDArray[np.int64], edits: int = 0) -> ChunkedArray:
    """Cut a ring (size, ...) written at successive positions; `written` counts writes ever made, by each of its writers.

    `edits` counts changes to rows already written: each gives every chunk a new version (unchanged content is found by its hash).
    """
    size = len(ring)
    used = min(int(written.max(initial=0)), size)
    chunks, versions = [], []
    for start in range(0, used, CHUNK_ROWS):
        stop = min(start + CHUNK_ROWS, size)
        chunks.append(ring[start : min(stop, used)])
        # Writes that touched [start, stop): every complete lap, plus the part of the current lap that got this far.
        laps, position = np.divmod(written, size)
        versions.append((edits << 48) + int((laps * (stop - start) + (position - start).clip(0, stop - start)).sum()))
    return ChunkedArray(name, chunks, versions)
