"""SAC and TD3 for a million steps on MuJoCo tasks: several runs side by side on one GPU, in pieces, stored with their curves.

    python benchmarks/million_steps.py --minutes 9   # start, or resume what has not finished
    python benchmarks/million_steps.py --only sac --seeds 1 --minutes 9   # fewer at a time

After `--minutes` every run saves and leaves as Ctrl-C would make it; the next call goes on from there. What is trained is in
the presets. What the runs have reached is written to benchmarks/results/million_steps.json after each call.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ENVS = ("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5")
CLI = [sys.executable, "-m", "rl_training.cli"]
GRACE = 45.0  # seconds that a run gets to save itself


def started(work: Path, algo: str, env_id: str, seed: int) -> Path | None:
    """The directory of a run, if there is one."""
    return next(work.glob(f"{algo}__{env_id}__seed{seed}__*"), None)


def info(run: Path) -> dict[str, Any]:
    """What run.json says: status, step, and so on."""
    found: dict[str, Any] = json.loads((run / "run.json").read_text())
    return found


def command(work: Path, algo: str, env_id: str, seed: int, runtime: list[str]) -> list[str] | None:
    """What begins or continues a run; None if it has finished."""
    run = started(work, algo, env_id, seed)
    if run is None:
        quiet = ["--logging.progress", "quiet", "--logging.tensorboard", "false", "--logging.every", "10000"]
        return [*CLI, "train", algo, env_id, "--seed", str(seed), "--output-dir", str(work), *quiet, *runtime]
    return None if info(run)["status"] == "finished" else [*CLI, "resume", str(run)]


def run_all(jobs: list[tuple[str, str, int]], work: Path, runtime: list[str], seconds: float, stagger: float) -> None:
    """Run all jobs until they end or time is up. Later seeds start later: they find what earlier ones have compiled."""
    begun, running = time.monotonic(), {}
    for job in jobs:
        time.sleep(max(0.0, begun + stagger * job[2] - time.monotonic()))
        words = command(work, *job, runtime)
        if words is not None:
            log = (work / f"log-{'-'.join(map(str, job))}.txt").open("a")
            one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
            running[job] = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=one_thread)
    while time.monotonic() < begun + seconds and any(process.poll() is None for process in running.values()):
        time.sleep(1.0)
    for process in running.values():
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    ends = time.monotonic() + GRACE
    for job, process in running.items():
        try:
            process.wait(max(0.1, ends - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
        if process.returncode not in (0, 143):
            print(f"{job}: exit code {process.returncode}; its output is in {work}", flush=True)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def reached(run: Path) -> dict[str, Any]:
    """How far a run is, and its evaluations."""
    logged = lines(run / "metrics.jsonl")
    return {
        "seed": info(run)["seed"], "status": info(run)["status"], "env_steps": logged[-1]["step"] if logged else 0,
        "curve": [[row["step"], round(row["mean"], 1)] for row in lines(run / "evaluations.jsonl")],
    }  # fmt: skip


def report(work: Path, note: str) -> dict[str, Any]:
    """What all runs of a folder have reached, with versions and hardware."""
    from importlib.metadata import version

    import torch

    from rl_training.experiment.manifest import versions

    runs: dict[str, list[dict[str, Any]]] = {}
    for run in sorted(work.glob("*__*__seed*__*")):
        algo, env_id, *_ = run.name.split("__")
        runs.setdefault(f"{algo}/{env_id}", []).append(reached(run))
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return {
        "date": datetime.now(UTC).date().isoformat(), "command": "python benchmarks/million_steps.py", "note": note,
        "versions": versions() | {"mujoco": version("mujoco")},
        "gpu": gpu, "cpu": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores",
        "runs": runs,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=["sac", "td3"], choices=["sac", "td3"])
    parser.add_argument("--envs", nargs="+", default=list(ENVS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--stagger", type=float, default=0.0, help="seconds between the starts of one seed's runs and the next's")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--accelerate", default="compile+graph")
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "million_steps")
    parser.add_argument("--note", default="", help="what to say of the machine beside the numbers")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "million_steps.json")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    jobs = [(algo, env_id, seed) for seed in range(args.seeds) for env_id in args.envs for algo in args.only]
    runtime = ["--runtime.device", args.device, "--runtime.accelerate", args.accelerate]
    run_all(jobs, args.work, runtime, 60 * args.minutes, args.stagger)
    found = report(args.work, args.note)
    args.out.write_text(json.dumps(found, indent=1) + "\n")
    for task, rows in found["runs"].items():
        print(task, [(row["seed"], row["env_steps"], row["curve"][-1:]) for row in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
