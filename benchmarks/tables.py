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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from curves import picture
from doc_tables import filled, pages
from million_table import final, million, million_table
from offline_table import STORED, mean_of, offline_tables

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "src" / "rl_training" / "zoo" / "results"
IMAGES = ROOT / "docs" / "images"
RESULTS_PAGE = ROOT / "docs" / "results.md"
README_TASKS = ("ppo/CartPole-v1", "dqn/CartPole-v1", "ppo/Pendulum-v1", "sac/Pendulum-v1", "td3_bc/Pendulum-v1")
OVERVIEW = ROOT / "docs" / "algorithms.md"


def shown(score: float, result: dict[str, Any]) -> str:
    """A score in the measure of its contract."""
    return f"{score:.0%}" if result.get("measure") == "success" else f"{score:.0f}"


def stored(tasks: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The results of these tasks, or of all."""
    results = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    return [result for result in results if not tasks or result["task"] in tasks]


def learning_table(results: list[dict[str, Any]]) -> list[str]:
    rows = [
        "| task | env steps | updates | bar | score of each seed (best checkpoint) | median of the last |",
        "|---|---|---|---|---|---|",
    ]
    for result in results:
        seeds = result["seeds"]
        best = ", ".join(shown(row["best"], result) for row in seeds)
        last = statistics.median(row["last"] for row in seeds)
        measure = "" if result.get("measure", "return") == "return" else f"{result['measure']}, "
        bar = f"{result['bar']:g} ({measure}{result['rule']})" if "cloning_last" not in seeds[0] else result["rule"]
        cells = (result["task"], f"{seeds[0]['env_steps']:,}", f"{seeds[0]['updates']:,}", bar, best, shown(last, result))
        rows.append("| " + " | ".join(cells) + " |")
    for result in results:
        if control := result.get("control"):
            scores = ", ".join(shown(row["control"], result) for row in result["seeds"])
            settings = ", ".join(f"{name} = {str(value).lower()}" for name, value in control["settings"].items())
            rows += ["", f"{result['task']} with {settings}: {scores}."]
    for result in results:
        if "cloning_last" in result["seeds"][0]:
            cloned, data = ([f"{row[key]:.0f}" for row in result["seeds"]] for key in ("cloning_last", "data_mean"))
            rows += ["", f"{result['task']}: cloning the same data gives {', '.join(cloned)}; "
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
        what = f"{entry.summary}{source(entry.home, entry.module)}".replace("|", "\\|")
        cells = (label, f"`{entry.agent}`", what, ", ".join(entry.actions), learns, measured(name) or "none")
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def source(home: str, module: str) -> str:
    """The paper that an algorithm's file names first, such as (Haarnoja et al. 2018, arXiv:1812.05905)."""
    text = ast.get_docstring(ast.parse((ROOT / "src" / "rl_training" / home / f"{module}.py").read_text())) or ""
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
        elif rows := offline_runs(name, env_id):
            where = "[same data for all](results.md#learning-from-stored-data)"
            text = f"{mean_of(rows):,.0f} ({where}, {len(rows)} seed{'s' * (len(rows) != 1)})"
        elif runs := million()["runs"].get(f"{name}/{env_id}"):
            mean = statistics.fmean(final(run) for run in runs)
            text = f"{mean:,.0f} ([a million steps](results.md#a-million-steps-of-mujoco))"
        parts.append(f"{env_id}: {text}")
    return "<br>".join(parts)


def offline_runs(name: str, env_id: str) -> list[dict[str, Any]]:
    """What an algorithm came to on stored data of an environment: of the table that has most of its seeds."""
    reports = [json.loads(path.read_text()) for path in sorted(STORED.glob("*.json"))]
    return max((report["runs"].get(name, []) for report in reports if report["env_id"] == env_id), key=len, default=[])


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
    pairs = len(next(iter(report["tasks"].values()))["sb3"])
    how = "one run of each" if pairs == 1 else f"medians of {pairs} alternating runs"
    return [*rows, "", f"Measured {report['date']} by `{report['command']}`; {how}, one thread each."]


def block() -> str:
    lines = ["![Return of five PPO seeds on CartPole-v1](docs/images/ppo-cartpole.svg)", "",
             "Each seed's score is the mean return of 50 fresh episodes (`make learn`). Every algorithm, and a million steps of",
             "MuJoCo beside published figures, are in [docs/results.md](docs/results.md).",
             "", *learning_table(stored(README_TASKS))]  # fmt: skip
    if speed := speed_table():
        lines += ["", "Speed beside Stable-Baselines3 at the same hyperparameters (`make bench`; what bounds each is in",
                  "[benchmarks/README.md](benchmarks/README.md)):", "", *speed]  # fmt: skip
    return "\n".join(lines) + "\n"


def pictures() -> dict[Path, str]:
    """The learning curves that pages show."""
    ppo = stored(("ppo/CartPole-v1",))[0]["seeds"]
    runs = {task: [run["curve"] for run in seeds] for task, seeds in million()["runs"].items()}
    note = "evaluation return over env steps, one line per seed"
    return {
        IMAGES / "ppo-cartpole.svg": picture({"ppo/CartPole-v1": [row["curve"] for row in ppo]}, 1, note),
        IMAGES / "million-steps.svg": picture(runs, 3, note),
    }


def main() -> int:
    texts = {OVERVIEW: overview(), ROOT / "README.md": block(), RESULTS_PAGE: "\n".join(learning_table(stored()))}
    results = {page: filled(page, "results", text) for page, text in texts.items()}
    results[RESULTS_PAGE] = filled(RESULTS_PAGE, "million", million_table(), results[RESULTS_PAGE])
    results[RESULTS_PAGE] = filled(RESULTS_PAGE, "offline", offline_tables(), results[RESULTS_PAGE])
    wanted = pictures() | results | dict(pages())
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
