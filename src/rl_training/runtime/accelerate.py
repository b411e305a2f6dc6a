"""How updates run: as written (eager), as one compiled program, or captured in a CUDA graph. The only place that knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from rl_training.algorithms.base import Algorithm
from rl_training.data.batch import Batch
from rl_training.runtime.batches import Draw, Static, Update, drawn
from rl_training.runtime.captured import Captured
from rl_training.runtime.compiled import Compiled

Steps: TypeAlias = Callable[[Batch | Draw, Sequence[Static]], list[Batch]]
"""Several updates in a row, one for each set of static flags, on a batch or on batches that are drawn."""


def accelerate(algorithm: Algorithm, mode: str) -> Steps:
    """The algorithm's updates in the given mode; all modes take the same steps up to rounding (a CUDA graph: exactly)."""
    update: Update = Compiled(algorithm) if mode.startswith("compile") else _plain(algorithm)
    return Captured(update) if mode.endswith("graph") else _one_by_one(update)


def _plain(algorithm: Algorithm) -> Update:
    return lambda batch, **static: algorithm.update(drawn(batch), **static)


def _one_by_one(update: Update) -> Steps:
    return lambda batch, statics: [update(batch, **static) for static in statics]
