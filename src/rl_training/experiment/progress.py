"""What a person sees while training: a live view on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol


@dataclass
class Status:
    """A snapshot of a run for display."""

    clock: int
    end: int
    unit: str  # "steps" or "updates"
    per_second: float
    train_return: float | None = None
    evaluation: str = ""
    best: str = ""
    checkpoint: int | None = None
    shares: dict[str, float] = field(default_factory=dict)

    @property
    def done(self) -> float:
        """The part that is done, 0 to 1."""
        return min(1.0, self.clock / self.end) if self.end else 1.0

    @property
    def left(self) -> str:
        """Time to go at this rate."""
        if self.per_second <= 0:
            return "?"
        return str(timedelta(seconds=round(max(0, self.end - self.clock) / self.per_second)))


class Progress(Protocol):
    """A display of a run."""

    def say(self, text: str) -> None:
        """Show a line that stays."""

    def update(self, status: Status) -> None:
        """Show how far the run is, unless that was done a moment ago."""

    def close(self) -> None:
        """End the display; the terminal is as it was before."""


class Quiet:
    """Shows nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def update(self, status: Status) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class Plain:
    """One line every `seconds`, for logs and pipes."""

    def __init__(self, seconds: float = 10.0) -> None:
        self.seconds, self._last = seconds, time.monotonic()

    def say(self, text: str) -> None:
        try:
            print(text, flush=True)
        except BrokenPipeError:  # whoever read this has left, which is no reason to stop training
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def update(self, status: Status) -> None:
        if time.monotonic() - self._last >= self.seconds:
            self._last = time.monotonic()
            self.say(one_line(status))

    def close(self) -> None:
        """Nothing to restore."""


def one_line(status: Status) -> str:
    """A status as a line of a log."""
    parts = [
        f"{status.done:4.0%}",
        f"{status.clock:,} / {status.end:,} {status.unit}",
        f"{status.per_second:,.0f} {status.unit}/s",
        f"{status.left} left",
    ]
    if status.train_return is not None:
        parts.append(f"return {status.train_return:.1f}")
    if status.evaluation:
        parts.append(f"eval {status.evaluation}")
    return "   ".join(parts)


def make_progress(mode: str) -> Progress:
    """`auto` is live on a terminal and plain elsewhere."""
    if mode == "quiet":
        return Quiet()
    if mode == "live" or (mode == "auto" and sys.stdout.isatty()):
        from rl_training.experiment.live import Live  # rich takes a while to import

        return Live(forced=mode == "live")
    return Plain()
