"""What is printed after a run, and what is kept about where its settings came from."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from rl_training import _atomic

if TYPE_CHECKING:
    from rl_training.config import Resolved, TrainConfig
    from rl_training.experiment.results import TrainResult

ORIGIN_FILE = "config_origin.json"


def print_result(result: TrainResult, seconds: float) -> None:
    """How it ended, where it is, and what to type next; the report is written on the way."""
    from rl_training.experiment.report import write_report

    steps, updates = int(result.metrics["global_step"]), int(result.metrics["updates"])
    print(f"done in {timedelta(seconds=round(seconds))}   {steps:,} env steps, {updates:,} updates")
    if result.evaluation is not None:
        print(f"  result   evaluation return {result.evaluation} (as it stands at the end)")
    print(f"  run      {result.run_dir}")
    print(f"  report   {write_report(result.run_dir)}")
    print(f"  next     rl-training eval {result.run_dir}")
    if steps:
        print(f"           rl-training resume {result.run_dir} --total-steps {2 * steps}")


def save_origin(run_dir: Path, resolved: Resolved, final: TrainConfig) -> None:
    """Keep where each setting came from; what was left to choose is marked with the choice."""
    from rl_training.config import diff

    origin = dict(resolved.origin)
    for key, _, _ in diff(resolved.config, final):
        origin[key] = f"{origin.get(key, 'default')}, chosen at the start"
    _atomic.write_bytes(run_dir / ORIGIN_FILE, (json.dumps(origin, indent=1) + "\n").encode())
