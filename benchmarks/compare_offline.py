"""Updates per second beside d3rlpy and beside ordinary single-file code: same data, networks, batches and hyperparameters.

    python benchmarks/compare_offline.py --d3rlpy-python PATH   # PATH: a Python that has d3rlpy (see benchmarks/README.md)

Every side runs in a process of its own on one torch thread, alternating, `--repeats` times; the table shows medians of updates
per CPU second and the mean return of 20 episodes at the end. The data are 40,000 steps of mixed quality in Pendulum-v1.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from compare_sb3 import measure
from offline import made

HERE = Path(__file__).resolve().parent
BOUND = 2.5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algos", nargs="*", default=["td3_bc", "iql", "cql"])
    parser.add_argument("--d3rlpy-python", required=True)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    from rl_training.data.dataset import load_dataset

    data = load_dataset(str(made("pendulum-mixed", HERE / "data")))
    out = HERE / "results" / "compare_offline.json"
    report: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {"algorithms": {}}
    report |= {
        "date": datetime.now(UTC).date().isoformat(), "cpu": platform.processor() or platform.machine(), "repeats": args.repeats,
        "command": "python benchmarks/compare_offline.py --d3rlpy-python PATH", "bound": BOUND,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "data.npz")
        np.savez(path, **data.columns())
        for algo in args.algos:
            runs: dict[str, list[dict[str, Any]]] = {}
            for _ in range(args.repeats):
                runs.setdefault("d3rlpy", []).append(measure(args.d3rlpy_python, "peers/offline_d3rlpy.py", algo, path))
                runs.setdefault("single file", []).append(measure(sys.executable, "peers/offline_single_file.py", algo, path))
                for mode in ("compile", "eager"):
                    ours = measure(sys.executable, "peers/offline_ours.py", algo, path, mode)
                    runs.setdefault(f"ours, {mode}", []).append(ours)
            report["algorithms"][algo] = runs
            rates = {side: statistics.median(row["updates_per_cpu_s"] for row in rows) for side, rows in runs.items()}
            print(f"\n{algo:20}{'updates/CPU s':>14}{'to d3rlpy':>11}{'to single':>11}{'return':>10}")
            for side, rate in rates.items():
                final = statistics.median(row["return"] for row in runs[side])
                ratios = f"{rate / rates['d3rlpy']:11.2f}{rate / rates['single file']:11.2f}"
                print(f"{side:20}{rate:14,.1f}{ratios}{final:10.1f}", flush=True)
            out.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
