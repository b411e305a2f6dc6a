"""How an update runs: as written (eager), as one compiled program, or captured in a CUDA graph. The only place that knows."""

from __future__ import annotations

from rl_training.algorithms.base import Algorithm
from rl_training.runtime.batches import Update, drawn
from rl_training.runtime.captured import Captured
from rl_training.runtime.compiled import Compiled


def accelerate(algorithm: Algorithm, mode: str) -> Update:
    """The algorithm's update in the given mode; all modes take the same steps up to rounding (a CUDA graph: exactly)."""
    update = Compiled(algorithm) if mode.startswith("compile") else algorithm.update
    return Captured(update) if mode.endswith("graph") else lambda batch, **static: update(drawn(batch), **static)
