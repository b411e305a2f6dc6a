"""Where the time goes: seconds per phase, always on."""

from __future__ import annotations

import time
from types import TracebackType

PHASES = ("collect", "prepare", "sample", "update", "evaluate", "log", "checkpoint")


class Timing:
    """Accumulates wall seconds per phase; nested phases are not counted twice."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self.inner = 0.0
        self.started = time.perf_counter()

    def phase(self, name: str) -> Phase:
        """`with timing.phase("update"): ...`"""
        return Phase(self, name)

    def shares(self) -> dict[str, float]:
        """Part of the time in all phases that each took."""
        total = sum(self.seconds.values()) or 1.0
        return {name: seconds / total for name, seconds in self.seconds.items()}


class Phase:
    """One stretch of a phase. A class, not a generator: it runs several times per env step, where that costs microseconds."""

    __slots__ = ("_name", "_outer", "_start", "_timing")

    def __init__(self, timing: Timing, name: str) -> None:
        self._timing, self._name = timing, name

    def __enter__(self) -> None:
        self._outer, self._timing.inner = self._timing.inner, 0.0
        self._start = time.perf_counter()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        spent = time.perf_counter() - self._start
        self._timing.seconds[self._name] += spent - self._timing.inner
        self._timing.inner = self._outer + spent
