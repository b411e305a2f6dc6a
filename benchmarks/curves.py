"""Learning curves as an SVG picture: one panel per task, one line per seed."""

from __future__ import annotations

import math
from collections.abc import Sequence

Curve = Sequence[Sequence[float]]  # (env steps, return)

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9")
WIDTH, HEIGHT, LEFT, RIGHT, BOTTOM, TOP = 320, 230, 56, 22, 30, 30
STYLE = "font-family:sans-serif;font-size:12px;fill:#555"


def picture(panels: dict[str, Sequence[Curve]], columns: int, note: str) -> str:
    """All panels in rows of `columns`, with a line of text below them."""
    rows = -(-len(panels) // columns)
    parts = []
    for i, (title, curves) in enumerate(panels.items()):
        parts.append(panel(title, curves, WIDTH * (i % columns), HEIGHT * (i // columns)))
    width, height = WIDTH * columns, HEIGHT * rows + 24
    parts.append(f'<text x="{width / 2}" y="{height - 8}" text-anchor="middle">{note}</text>')
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" style="{STYLE}">\n' \
           f'<rect width="{width}" height="{height}" fill="#fff"/>\n{body}\n</svg>\n'  # fmt: skip


def panel(title: str, curves: Sequence[Curve], x0: float, y0: float) -> str:
    """One task at (x0, y0)."""
    last = max(step for curve in curves for step, _ in curve)
    values = [value for curve in curves for _, value in curve]
    ticks = rounded(min(0.0, *values), max(values))
    low, high = ticks[0], ticks[-1]

    def x(step: float) -> float:
        return x0 + LEFT + (WIDTH - LEFT - RIGHT) * step / last

    def y(value: float) -> float:
        return y0 + HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value - low) / (high - low)

    lines = [f'<text x="{x0 + (LEFT + WIDTH) / 2:.1f}" y="{y0 + 18}" text-anchor="middle" font-weight="bold">{title}</text>']
    for tick in ticks:
        lines.append(f'<line x1="{x(0):.1f}" x2="{x(last):.1f}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#bbb"/>')
        lines.append(f'<text x="{x(0) - 6:.1f}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:,g}</text>')
    for step in [tick for tick in rounded(0.0, last) if tick <= last]:
        label = f"{step / 1e6:g}M" if step >= 1e6 else f"{step / 1e3:g}k" if step else "0"
        lines.append(f'<text x="{x(step):.1f}" y="{y0 + HEIGHT - BOTTOM + 18}" text-anchor="middle">{label}</text>')
    for colour, curve in zip(COLOURS, curves):
        points = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in curve)
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    return "\n".join(lines)


def rounded(low: float, high: float) -> list[float]:
    """Round numbers from at most `low` to at least `high`, four to eight of them."""
    rough = (high - low) / 5 or 1.0
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [step * i for i in range(first, last + 1)]
