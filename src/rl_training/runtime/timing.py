"""Where the time goes: seconds per phase, always on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

PHASES = ("collect", "prepare", "sample", "update", "evaluate", "log", "checkpoint")


class Timing:
    """Accumulates wall seconds per phase; nested phases are not counted twice."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self._inner = 0.0
        self.started = time.perf_counter()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        outer, self._inner = self._inner, 0.0
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.seconds[name] += spent - self._inner
            self._inner = outer + spent

    def shares(self) -> dict[str, float]:
        """Part of the time in all phases that each took."""
        total = sum(self.seconds.values()) or 1.0
        return {name: seconds / total for name, seconds in self.seconds.items()}
