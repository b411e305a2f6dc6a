"""Writes the tables of README.md and docs/, and the picture of the learning curves, from the stored results and the code.

    python benchmarks/tables.py          # rewrite them
    python benchmarks/tables.py --check  # fail if they differ from what is stored
"""

from __future__ import annotations

import ast
import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any

from doc_tables import filled, pages

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "src" / "rl_training" / "zoo" / "results"
PICTURE = ROOT / "docs" / "images" / "ppo-cartpole.svg"
OVERVIEW = ROOT / "docs" / "algorithms.md"


def shown(score: float, result: dict[str, Any]) -> str:
    """A score in the measure of its contract."""
    return f"{score:.0%}" if result.get("measure") == "success" else f"{score:.0f}"


def learning_table() -> list[str]:
    rows = [
        "| task | env steps | updates | bar | score of each seed (best checkpoint) | median of the last |",
        "|---|---|---|---|---|---|",
    ]
    for path in sorted(RESULTS.glob("*.json")):
        result = json.loads(path.read_text())
        seeds = result["seeds"]
        best = ", ".join(shown(row["best"], result) for row in seeds)
        last = statistics.median(row["last"] for row in seeds)
        measure = "" if result.get("measure", "return") == "return" else f"{result['measure']}, "
        bar = f"{result['bar']:g} ({measure}{result['rule']})" if "cloning_last" not in seeds[0] else result["rule"]
        cells = (result["task"], f"{seeds[0]['env_steps']:,}", f"{seeds[0]['updates']:,}", bar, best, shown(last, result))
        rows.append("| " + " | ".join(cells) + " |")
    for path in sorted(RESULTS.glob("*.json")):
        result = json.loads(path.read_text())
        if control := result.get("control"):
            scores = ", ".join(shown(row["control"], result) for row in result["seeds"])
            settings = ", ".join(f"{name} = {str(value).lower()}" for name, value in control["settings"].items())
            rows += ["", f"{result['task']} with {settings}: {scores}."]
    for path in sorted(RESULTS.glob("td3_bc__*.json")):
        seeds = json.loads(path.read_text())["seeds"]
        cloned, data = ([f"{row[key]:.0f}" for row in seeds] for key in ("cloning_last", "data_mean"))
        rows += ["", f"{path.stem.replace('__', '/')}: cloning the same data gives {', '.join(cloned)}; "
                     f"the data's mean return is {', '.join(data)}."]  # fmt: skip
    return rows


def overview() -> str:
    """Every algorithm of the registry: what it is, what it acts in and learns from, and how its presets scored."""
    from rl_training.algorithms import REGISTRY, find
    from rl_training.algorithms.replay import ReplayConfig

    head = "| algorithm | class | what it is | actions | learns from | presets: median score of the seeds |"
    rows = [head, "|---|---|---|---|---|---|"]
    for name, entry in REGISTRY.items():
        off_policy = issubclass(find(name).config_class, ReplayConfig)
        online = "replay (off-policy)" if off_policy else "its own rollouts (on-policy)"
        page = OVERVIEW.parent / "algorithms" / f"{name}.md"
        label = f"[{name}](algorithms/{name}.md)" if page.exists() else name
        learns = "stored data (offline)" if entry.offline else "replay and stored data" if entry.mixes_data else online
        what = f"{entry.summary}{source(entry)}".replace("|", "\\|")
        cells = (label, f"`{entry.agent}`", what, ", ".join(entry.actions), learns, measured(name) or "none")
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def source(entry: Any) -> str:
    """The paper that an algorithm's file names first, such as (Haarnoja et al. 2018, arXiv:1812.05905)."""
    text = ast.get_docstring(ast.parse((ROOT / "src" / "rl_training" / entry.home / f"{entry.module}.py").read_text())) or ""
    found = re.search(r"\([^()]*\b(19|20)\d\d\b[^()]*\)", " ".join(text.split()))
    return "" if found is None else " " + re.sub(r"arXiv:([\d.]+\d)", r"[arXiv:\1](https://arxiv.org/abs/\1)", found.group())


def measured(name: str) -> str:
    """The presets of an algorithm with what their seeds scored, where that is stored."""
    from rl_training.config.layers import PRESETS
    from rl_training.config.yaml_reader import read_yaml

    parts = []
    for preset in sorted(PRESETS.glob(f"{name}/*.yaml")):
        env_id = read_yaml(preset).values["env_id"]
        path = RESULTS / f"{name}__{env_id.replace('/', '__')}.json"
        text = "not measured"
        if path.exists():
            result = json.loads(path.read_text())
            key = "last" if "cloning_last" in result["seeds"][0] else "best"
            text = shown(statistics.median(row[key] for row in result["seeds"]), result)
            text += " successful" if result.get("measure") == "success" else ""
        parts.append(f"{env_id}: {text}")
    return "<br>".join(parts)


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
    lines = ["![Return of five PPO seeds on CartPole-v1](docs/images/ppo-cartpole.svg)", "",
             "Each seed's score is the mean return of 50 fresh episodes (`make learn`):", "", *learning_table()]  # fmt: skip
    if speed := speed_table():
        lines += ["", "Speed beside Stable-Baselines3 at the same hyperparameters (`make bench`; what bounds each is in",
                  "[benchmarks/README.md](benchmarks/README.md)):", "", *speed]  # fmt: skip
    return "\n".join(lines) + "\n"


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
    drawn = picture(json.loads((RESULTS / "ppo__CartPole-v1.json").read_text())["seeds"])
    results = {page: filled(page, "results", text) for page, text in ((OVERVIEW, overview()), (ROOT / "README.md", block()))}
    wanted = {PICTURE: drawn} | results | dict(pages())
    if "--check" in sys.argv:
        stale = [str(path.relative_to(ROOT)) for path, text in wanted.items() if not path.exists() or path.read_text() != text]
        print("\n".join(f"{name} is not what is stored" for name in stale))
        return 1 if stale else 0
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
