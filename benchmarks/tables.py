"""Writes the measured tables of the README and the picture of the learning curves from the stored results.

    python benchmarks/tables.py          # rewrite them
    python benchmarks/tables.py --check  # fail if they differ from the stored results
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "src" / "rl_training" / "zoo" / "results"
PICTURE = ROOT / "docs" / "images" / "ppo-cartpole.svg"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


def learning_table() -> list[str]:
    rows = [
        "| task | env steps | updates | bar | score of each seed (best checkpoint) | median of the last |",
        "|---|---|---|---|---|---|",
    ]
    for path in sorted(RESULTS.glob("*.json")):
        result = json.loads(path.read_text())
        seeds = result["seeds"]
        best = ", ".join(f"{row['best']:.0f}" for row in seeds)
        last = statistics.median(row["last"] for row in seeds)
        bar = f"{result['bar']:g} ({result['rule']})" if "cloning_last" not in seeds[0] else result["rule"]
        cells = (result["task"], f"{seeds[0]['env_steps']:,}", f"{seeds[0]['updates']:,}", bar, best, f"{last:.0f}")
        rows.append("| " + " | ".join(cells) + " |")
    for path in sorted(RESULTS.glob("td3_bc__*.json")):
        seeds = json.loads(path.read_text())["seeds"]
        cloned, data = ([f"{row[key]:.0f}" for row in seeds] for key in ("cloning_last", "data_mean"))
        rows += ["", f"{path.stem.replace('__', '/')}: cloning the same data gives {', '.join(cloned)}; "
                     f"the data's mean return is {', '.join(data)}."]  # fmt: skip
    return rows


def speed_table() -> list[str]:
    path = ROOT / "benchmarks" / "results" / "compare_sb3.json"
    if not path.exists():
        return []
    report = json.loads(path.read_text())
    head = "| task | variant | env steps per CPU second | ratio to SB3 | start-up CPU s | final return |"
    rows = [head, "|---|---|---|---|---|---|"]
    for task, runs in report["tasks"].items():
        base = statistics.median(row["steps_per_cpu_s"] for row in runs["sb3"])
        for name, samples in runs.items():
            speed = statistics.median(row["steps_per_cpu_s"] for row in samples)
            start = statistics.median(row["startup_cpu_s"] for row in samples)
            returns = statistics.median(row["return"] for row in samples)
            label = f"Stable-Baselines3 {samples[0]['sb3']}" if name == "sb3" else name.replace("+", ", ")
            rows.append(f"| {task} | {label} | {speed:,.0f} | {speed / base:.1f} | {start:.1f} | {returns:.0f} |")
    return [*rows, "", f"Measured {report['date']} by `{report['command']}`; medians of "
                       f"{len(next(iter(report['tasks'].values()))['sb3'])} alternating runs, one thread each."]  # fmt: skip


def block() -> str:
    lines = ["", "![Return of five PPO seeds on CartPole-v1](docs/images/ppo-cartpole.svg)", "",
             "Each seed's score is the mean return of 50 fresh episodes (`make learn`):", "", *learning_table()]  # fmt: skip
    if speed := speed_table():
        lines += ["", "Speed beside Stable-Baselines3 at the same hyperparameters (`make bench`; what bounds each is in",
                  "[benchmarks/README.md](benchmarks/README.md)):", "", *speed]  # fmt: skip
    return "\n".join(lines) + "\n\n"


def picture(seeds: list[dict[str, Any]]) -> str:
    """Evaluation return over env steps, a line per seed."""
    width, height, left, bottom, top = 640, 300, 56, 44, 16
    last = max(point[0] for row in seeds for point in row["curve"])

    def at(step: float, value: float) -> str:
        return f"{left + (width - left - 30) * step / last:.1f},{height - bottom - (height - bottom - top) * value / 500:.1f}"

    colours = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9")
    lines = [f'<line x1="{left}" x2="{width - 30}" y1="{y}" y2="{y}" stroke="#bbb" stroke-width="1"/>'
             f'<text x="{left - 8}" y="{float(y) + 4}" text-anchor="end">{value}</text>'
             for value in (0, 100, 200, 300, 400, 500) for y in [at(0, value).split(",")[1]]]  # fmt: skip
    for step in range(0, last + 1, 20_000):
        x = at(step, 0).split(",")[0]
        lines.append(f'<text x="{x}" y="{height - bottom + 18}" text-anchor="middle">{step // 1000}k</text>')
    for colour, row in zip(colours, seeds):
        points = " ".join(at(*point) for point in row["curve"])
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
    lines.append(f'<text x="{width / 2}" y="{height - 6}" text-anchor="middle">env steps (evaluation return, five seeds)</text>')
    style = "font-family:sans-serif;font-size:12px;fill:#555"
    body = "\n".join(lines)
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" style="{style}">\n' \
           f'<rect width="{width}" height="{height}" fill="#fff"/>\n{body}\n</svg>\n'  # fmt: skip


def main() -> int:
    readme = ROOT / "README.md"
    text = readme.read_text()
    head, rest = text.split(BEGIN)
    wanted = head + BEGIN + block() + END + rest.split(END)[1]
    drawn = picture(json.loads((RESULTS / "ppo__CartPole-v1.json").read_text())["seeds"])
    if "--check" in sys.argv:
        return 0 if text == wanted and PICTURE.read_text() == drawn else 1
    readme.write_text(wanted)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(drawn)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
