"""Speed beside Stable-Baselines3: same task, same hyperparameters, one run, CPU and wall time, with the final return.

    python benchmarks/compare_sb3.py --sb3-python PATH    # PATH: a Python that has stable-baselines3 (see benchmarks/README.md)

Each side runs in its own process and environment, one torch thread, alternating, `--repeats` times; the table shows medians of
env steps per CPU second while training. Start-up (imports, and compiling where it is used) is reported beside it, not hidden.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# name: (env steps for ours, env steps for SB3, our variants); SB3 runs fewer steps where it is slow
TASKS: dict[str, tuple[int, int, tuple[str, ...]]] = {
    "ppo-cartpole": (250_000, 60_000, ("native+compile", "gym+compile", "native+eager", "gym+eager")),
    "dqn-cartpole": (30_000, 10_000, ("native+compile", "gym+compile")),
    "sac-halfcheetah": (3_500, 2_000, ("gym+compile", "gym+eager")),
    "td3-halfcheetah": (3_500, 2_000, ("gym+compile",)),
}


def measure(python: str, script: str, *arguments: str) -> dict[str, Any]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([python, str(HERE / script), *arguments], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{script} {arguments} failed:\n{done.stderr[-3000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--sb3-python", required=True)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    report: dict[str, Any] = {"date": datetime.now(UTC).date().isoformat(), "cpu": platform.processor() or platform.machine(),
                              "command": f"make bench (repeats {args.repeats})", "tasks": {}}  # fmt: skip
    for task in args.tasks:
        ours, theirs, variants = TASKS[task]
        runs: dict[str, list[dict[str, Any]]] = {}
        for _ in range(args.repeats):
            runs.setdefault("sb3", []).append(measure(args.sb3_python, "run_sb3.py", task, str(theirs)))
            for variant in variants:
                runs.setdefault(variant, []).append(measure(sys.executable, "run_ours.py", task, variant, str(ours)))
        base = statistics.median(run["steps_per_cpu_s"] for run in runs["sb3"])
        print(f"\n{task}")
        print(f"{'':18}{'steps/CPU s':>12}{'ratio':>8}{'wall ratio':>12}{'start-up CPU s':>16}{'return':>10}")
        wall = statistics.median(run["steps_per_wall_s"] for run in runs["sb3"])
        for name, rows in runs.items():
            medians = {key: statistics.median(row[key] for row in rows) for key in rows[0] if isinstance(rows[0][key], float)}
            ratios = f"{medians['steps_per_cpu_s'] / base:8.2f}{medians['steps_per_wall_s'] / wall:12.2f}"
            rest = f"{medians['startup_cpu_s']:16.1f}{medians['return']:10.1f}"
            print(f"{name:18}{medians['steps_per_cpu_s']:12,.0f}{ratios}{rest}", flush=True)
        report["tasks"][task] = runs
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "compare_sb3.json").write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
