"""The learning curve as SVG: training episodes as a line, evaluations as marked points with their spread."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape

from rl_training.experiment.report_data import RunData

_WIDTH, _HEIGHT = 560, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 24, 34, 46
# Okabe-Ito colours: told apart by every kind of colour vision, on light and on dark; the marks differ in shape as well.
STYLE = """
.curve { --ink: #1a1a1a; --soft: #5c5c5c; --line: #d9d9d9; --back: #ffffff; --train: #0072b2; --test: #d55e00;
  font: 14px system-ui, sans-serif; background: var(--back); }
.curve text { fill: var(--soft); } .curve .name { fill: var(--ink); }
.curve .grid { stroke: var(--line); } .curve .goal { stroke: var(--soft); stroke-dasharray: 5 4; }
.curve .train { fill: none; stroke: var(--train); stroke-width: 1.6; stroke-linejoin: round; }
.curve .test { fill: none; stroke: var(--test); stroke-width: 2; } .curve .dot { fill: var(--test); }
.curve .spread { stroke: var(--test); stroke-width: 1.2; opacity: .6; }
@media (prefers-color-scheme: dark) { .curve { --ink: #f0f0f0; --soft: #b0b0b0; --line: #3a3d42; --back: #17191c;
  --train: #56b4e9; --test: #e69f00; } }
"""


def curve(data: RunData, target: float | None = None) -> str:
    """The whole picture, for a page or a file of its own."""
    parts = [
        f'<svg class="curve" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(description(data))}">',
        f"<title>{escape(data.title)}: learning curve</title>",
        f"<style>{STYLE}</style>",
    ]
    xs = [x for x, _ in data.episodes] + [x for x, _, _ in data.evaluations]
    if not xs:
        parts.append(f'<text x="{_WIDTH / 2}" y="{_HEIGHT / 2}" text-anchor="middle">no returns yet</text>')
        return "\n".join([*parts, "</svg>"])
    ys = [y for _, y in data.episodes] + [m + sign * s for _, m, s in data.evaluations for sign in (-1, 1)]
    ys += [] if target is None else [target]
    x_ticks, y_ticks = ticks(0.0, max(xs)), ticks(min(ys), max(ys))
    across, down = _scale(x_ticks, _LEFT, _WIDTH - _RIGHT), _scale(y_ticks, _HEIGHT - _BOTTOM, _TOP)
    for y in y_ticks:
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{down(y)}" y2="{down(y)}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{down(y) + 4}" text-anchor="end">{number(y)}</text>')
    for x in x_ticks:
        parts.append(f'<text x="{across(x)}" y="{_HEIGHT - _BOTTOM + 20}" text-anchor="middle">{number(x)}</text>')
    parts.append(f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 6}" text-anchor="middle">{data.unit}</text>')
    if target is not None:
        parts.append(
            f'<line class="goal" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{down(target)}" y2="{down(target)}"/>'
        )
    if data.episodes:
        parts.append(f'<polyline class="train" points="{_path([(across(x), down(y)) for x, y in data.episodes])}"/>')
    for x, mean, std in data.evaluations:
        top, bottom = down(mean + std), down(mean - std)
        parts.append(f'<line class="spread" x1="{across(x)}" x2="{across(x)}" y1="{top}" y2="{bottom}"/>')
    if data.evaluations:
        parts.append(
            f'<polyline class="test" points="{_path([(across(x), down(m)) for x, m, _ in data.evaluations])}"/>'
        )
    parts += [f'<circle class="dot" cx="{across(x)}" cy="{down(m)}" r="4"/>' for x, m, _ in data.evaluations]
    return "\n".join([*parts, *_legend(data, target), "</svg>"])


def description(data: RunData) -> str:
    """The curve in words, for those who cannot see it."""
    words = f"Return over {data.unit}: {data.episode_count:,} training episodes, {len(data.evaluations)} evaluations"
    if data.evaluations:
        words += f", the first {data.evaluations[0][1]:.1f}, the last {data.evaluations[-1][1]:.1f}"
    return words


def ticks(low: float, high: float) -> list[float]:
    """Four to nine round numbers that reach from at most `low` to at least `high`."""
    if high - low < 1e-9 * max(1.0, abs(high)):
        low, high = low - 1.0, high + 1.0
    rough = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, last + 1)]


def number(value: float) -> str:
    """A short label: 20k, 1.5M, -0.25."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / min(size, 1e3 if letter == 'k' else size):g}{letter}"
    return f"{value:.4g}"


def _scale(values: list[float], start: float, end: float) -> Callable[[float], float]:
    low, high = values[0], values[-1]
    return lambda value: round(start + (value - low) / (high - low) * (end - start), 1)


def _path(points: list[tuple[float, float]]) -> str:
    return " ".join(f"{x},{y}" for x, y in points)


def _legend(data: RunData, target: float | None) -> list[str]:
    parts, x = [], float(_LEFT)
    entries: list[tuple[str, str]] = []
    if data.episodes:
        label = "training" + (f", mean of {data.window}" if data.window > 1 else "")
        entries.append(('<line class="train" x1="{0}" x2="{1}" y1="18" y2="18"/>', label))
    if data.evaluations:
        entries.append(('<line class="test" x1="{0}" x2="{1}" y1="18" y2="18"/><circle class="dot" cx="{2}" cy="18" r="4"/>',
                        "evaluation ± std"))  # fmt: skip
    if target is not None:
        entries.append(('<line class="goal" x1="{0}" x2="{1}" y1="18" y2="18"/>', f"target {number(target)}"))
    for mark, label in entries:
        parts.append(mark.format(x, x + 24, x + 12))
        parts.append(f'<text class="name" x="{x + 30}" y="22">{label}</text>')
        x += 48 + 7 * len(label)
    return parts
