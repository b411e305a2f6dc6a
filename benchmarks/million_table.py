"""The table of docs/results.md about a million steps of MuJoCo, beside what others have published."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

STORED = Path(__file__).resolve().parent / "results" / "million_steps.json"
# At a million steps; docs/results.md says how each was measured.
PUBLISHED = {
    "sac/HalfCheetah-v5": "Tianshou 12,139 ± 1,049; CleanRL 9,635 ± 1,424",
    "sac/Hopper-v5": "Tianshou 3,542 ± 52; CleanRL 2,310 ± 343",
    "sac/Walker2d-v5": "Tianshou 5,007 ± 252; CleanRL 3,591 ± 911",
    "td3/HalfCheetah-v5": "authors 9,533 ± 819; CleanRL 9,583 ± 126",
    "td3/Hopper-v5": "authors 3,305 ± 220; CleanRL 3,135 ± 360",
    "td3/Walker2d-v5": "authors 4,565 ± 552; CleanRL 4,058 ± 659",
}


def million() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(STORED.read_text())
    return found


def final(run: dict[str, Any]) -> float:
    """What a run has come to: the mean of its last five evaluations."""
    return statistics.fmean(value for _, value in run["curve"][-5:])


def million_table() -> str:
    """A million steps of MuJoCo: the mean of each seed's last five evaluations, and what others have published."""
    report = million()
    head = "| task | each seed, mean of its last 5 evaluations | mean | published |"
    rows = [head, "|---|---|---|---|"]
    for task, runs in report["runs"].items():
        finals = [final(run) for run in runs]
        cells = (task, "; ".join(f"{value:,.0f}" for value in finals), f"{statistics.fmean(finals):,.0f}", PUBLISHED[task])
        rows.append("| " + " | ".join(cells) + " |")
    versions = ", ".join(f"{name} {report['versions'][name]}" for name in ("torch", "gymnasium", "mujoco"))
    rows += ["", f"Measured {report['date']} on one {report['gpu']}, {report['cpu']} ({versions}). {report['note']}."]
    return "\n".join(rows)
