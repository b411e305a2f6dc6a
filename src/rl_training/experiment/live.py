"""The live view: a bar with speed and time left, returns with a sparkline, and where the time goes."""

from __future__ import annotations

import time
from collections import deque

import rich.live
from rich.console import Console
from rich.text import Text

from rl_training.experiment.progress import Status

LEAST_SECONDS = 0.1  # between two pictures
COST_SHARE = 0.005  # of the time of training that drawing may take
_BLOCKS = "▁▂▃▄▅▆▇█"
_BAR = 36  # columns, where there is room
_PHASES = 4  # that took most of the time
_SPARKS = 32  # returns that the sparkline shows
_SPARK_SECONDS = 0.5


class Live:
    """Draws over its own last picture. A picture that took long to draw puts the next one off, so that drawing never costs
    more than a small share of the time; the cursor stays visible, so a killed process leaves no terminal to mend."""

    def __init__(self, forced: bool = False) -> None:
        self.console = Console(force_terminal=True if forced else None, highlight=False)
        self._live: rich.live.Live | None = None
        self._next = 0.0
        self._returns: deque[float] = deque(maxlen=_SPARKS)
        self._next_spark = 0.0

    def say(self, text: str) -> None:
        """Show a line above the picture."""
        self.console.print(text, markup=False, soft_wrap=True)

    def update(self, status: Status) -> None:
        start = time.monotonic()
        if start < self._next:
            return
        if status.train_return is not None and start >= self._next_spark:
            self._returns.append(status.train_return)
            self._next_spark = start + _SPARK_SECONDS
        if self._live is None:
            self._live = rich.live.Live(console=self.console, auto_refresh=False, transient=True)
            self._live.start()
            self.console.show_cursor(True)
        self._live.update(picture(status, list(self._returns), self.console.width), refresh=True)
        end = time.monotonic()
        self._next = end + max(LEAST_SECONDS, (end - start) / COST_SHARE)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def picture(status: Status, returns: list[float], width: int) -> Text:
    """One picture of a run, for a terminal of `width` columns."""
    counts = f"   {status.clock:,} / {status.end:,} {status.unit}   {status.per_second:,.0f}/s   {status.left} left"
    bar = max(0, min(_BAR, width - len(counts) - 6))
    filled = int(status.done * bar)
    text = Text(f"{status.done:4.0%}  ", no_wrap=True, overflow="crop")
    text.append("━" * filled, "green").append("━" * (bar - filled), "dim").append(counts)
    scores = [] if status.train_return is None else [f"train {status.train_return:.1f}"]
    scores += [f"eval {status.evaluation}"] if status.evaluation else []
    scores += [f"best {status.best}"] if status.best else []
    if scores:
        text.append("\n return   " + "   ".join([*scores, sparkline(returns)]))
    largest = sorted(status.shares.items(), key=lambda item: -item[1])[:_PHASES]
    times = [f"{name} {share:.0%}" for name, share in largest if share >= 0.01]
    below = ["  ".join(["time  ", *times])] if times else []
    below += [f"checkpoint {status.checkpoint:,}"] if status.checkpoint is not None else []
    if below:
        text.append("\n " + "   ".join(below), "dim")
    return text


def sparkline(values: list[float]) -> str:
    """Values as a row of small bars, the lowest to the highest of them."""
    if not values:
        return ""
    low, high = min(values), max(values)
    scale = (len(_BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BLOCKS[round((value - low) * scale)] for value in values)
