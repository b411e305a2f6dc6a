"""How well do the offline algorithms learn from the same stored data? Each algorithm over several seeds, stored with its curves.

    python benchmarks/offline.py pendulum-mixed                      # every algorithm, two runs at a time
    python benchmarks/offline.py hopper-medium walker2d-medium --algos iql td3_bc --jobs 16 --device cuda --matmul tf32

The data are made first, unless they lie under --data from an earlier call. Settings are those of the presets. What is stored in
benchmarks/results/offline/SUITE.json is not run again. A score is the mean return of 20 fresh episodes with the weights of the
last update: no checkpoint is chosen.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "offline"
EPISODES = 20
CLI = [sys.executable, "-m", "rl_training.cli"]


class Suite(NamedTuple):
    """An environment, how its data are made (a command and what follows its --out), and where among all data they then lie."""

    env_id: str
    command: tuple[str, ...]
    out: str
    folder: str
    online: int = 0  # env steps that follow


MUJOCO_DATA = ("--quality", "medium,medium-replay", "--total-steps", "300000", "--steps", "200000")


def _mujoco(env_id: str) -> dict[str, Suite]:
    name = env_id.partition("-")[0].lower()
    return {
        f"{name}-{quality}": Suite(env_id, ("data", "suite", env_id, *MUJOCO_DATA), "", f"{env_id}/{quality}")
        for quality in ("medium", "medium-replay")
    }


PENDULUM_DATA = (
    "data", "record", "--env", "Pendulum-v1", "--steps", "40000", "--policy", "scripted,share=0.2",
    "--policy", "scripted,noise=0.5,share=0.4", "--policy", "random,share=0.4",
)  # fmt: skip
SUITES: dict[str, Suite] = {
    "pendulum-mixed": Suite("Pendulum-v1", PENDULUM_DATA, "pendulum-mixed", "pendulum-mixed"),
    "pendulum-finetune": Suite("Pendulum-v1", PENDULUM_DATA, "pendulum-mixed", "pendulum-mixed", online=2000),
} | _mujoco("HalfCheetah-v5") | _mujoco("Hopper-v5") | _mujoco("Walker2d-v5")  # fmt: skip
# Rows of the table that are an algorithm with another setting.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "bc-best-10%": ("bc", {"keep_best": 0.1}),
    "crr-exponential": ("crr", {"filter": "exponential"}),
}


FINETUNED = ["iql", "awac", "cal_ql", "cql", "td3_bc", "rebrac"]
BEFORE = 2_000  # updates from stored data, where env steps follow


def algorithms_for(suite: str) -> list[str]:
    """Every offline algorithm that takes continuous actions, and the variants of these; or those that are made to go on."""
    from rl_training.algorithms import REGISTRY

    if SUITES[suite].online:
        return FINETUNED
    names = [name for name, entry in REGISTRY.items() if entry.offline and "continuous" in entry.actions]
    return names + [variant for variant, (name, _) in VARIANTS.items() if name in names]


def train(suite: str, label: str, seed: int, data: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """One run, measured; in a process of its own."""
    import torch

    from rl_training import algorithms
    from rl_training.config import find_preset, from_keywords, load_config
    from rl_training.envs.reference_scores import normalized_score

    torch.set_num_threads(1)
    name, changes = VARIANTS.get(label, (label, {}))
    env_id, online = SUITES[suite].env_id, SUITES[suite].online
    if online:
        settings = {"total_steps": online, "offline_updates": BEFORE, "eval_every": BEFORE // 2} | settings
    with tempfile.TemporaryDirectory() as work:
        quiet = {"output_dir": work, "progress": "quiet", "tensorboard": False, "num_episodes": EPISODES, "checkpoint_every": 0}
        given = {"seed": seed, "dataset": str(data)} | quiet | settings | changes
        preset = find_preset(name, env_id)
        config = from_keywords(name, env_id=env_id, **given) if preset is None else load_config(preset, given)
        started, cpu = time.perf_counter(), time.process_time()
        agent = algorithms.find(name).from_config(config).learn()
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        assert agent.result is not None
        log = (agent.result.run_dir / "evaluations.jsonl").read_text().splitlines()
        curve = [[row["step"], round(row["mean"], 1)] for row in map(json.loads, log)]
        result = agent.evaluate(EPISODES)
    score = normalized_score(env_id, result.mean)
    switch = {"before": dict(curve)[BEFORE]} if online else {}
    return switch | {
        "seed": seed, "updates": config.offline_updates, "env_steps": online, "last": round(result.mean, 2),
        "wall_s": round(seconds, 1), "cpu_s": round(cpu, 1), "curve": curve,
        "normalized": None if score is None else round(score, 2),
    }  # fmt: skip


def in_process(suite: str, label: str, seed: int, data: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """The same in another process; what went wrong there is raised here."""
    words = [sys.executable, __file__, suite, "--one", label, str(seed), str(data), json.dumps(settings)]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    if done.returncode:
        raise RuntimeError(f"{label} on {suite}, seed {seed}:\n{done.stderr[-2000:]}")
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def made(suite: str, folder: Path) -> Path:
    """The data of a suite, made unless they are there."""
    spec = SUITES[suite]
    data = folder / spec.folder
    if not (data / "dataset.json").is_file():
        subprocess.run([*CLI, *spec.command, "--out", str(folder / spec.out)], check=True)
    return data


def about(data: Path) -> dict[str, Any]:
    """What the table says of the data."""
    from rl_training.data.dataset import load_dataset

    returns = load_dataset(str(data)).episode_returns()
    manifest = json.loads((data / "dataset.json").read_text())
    return {
        "rows": manifest["rows"], "episodes": len(returns), "mean": round(float(returns.mean()), 2),
        "best": round(float(returns.max()), 2), "sha256": manifest["sha256"]["data.safetensors"],
    }  # fmt: skip


def gpu() -> str:
    import torch

    return f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""


class Table:
    """What the runs of a suite came to, kept in a file."""

    def __init__(self, suite: str, path: Path) -> None:
        self.suite, self.path, self.data, self.file = suite, path, about(path), RESULTS / f"{suite}.json"
        report: dict[str, Any] = json.loads(self.file.read_text()) if self.file.exists() else {"runs": {}}
        if report["runs"] and report["data"]["sha256"] != self.data["sha256"]:
            raise SystemExit(f"{self.file} is about other data. Move it away to begin again.")
        self.runs: dict[str, list[dict[str, Any]]] = report["runs"]

    def has(self, label: str, seed: int) -> bool:
        return any(row["seed"] == seed for row in self.runs.get(label, []))

    def add(self, label: str, row: dict[str, Any]) -> None:
        """Keep a run, and write all of them."""
        from rl_training.experiment.manifest import versions

        self.runs[label] = sorted([*self.runs.get(label, []), row], key=lambda row: int(row["seed"]))
        spec = SUITES[self.suite]
        report = {
            "suite": self.suite, "env_id": spec.env_id, "data": self.data,
            "data_command": "rl-training " + " ".join(spec.command),
            "command": f"python benchmarks/offline.py {self.suite}", "versions": versions(), "episodes": EPISODES,
            "hardware": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores{gpu()}",
            "date": datetime.now(UTC).date().isoformat(), "runs": dict(sorted(self.runs.items())),
        }  # fmt: skip
        RESULTS.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps(report, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="+", choices=list(SUITES), metavar="SUITE", help=", ".join(SUITES))
    parser.add_argument("--algos", nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--data", type=Path, default=ROOT / "benchmarks" / "data")
    parser.add_argument("--updates", type=int, help="fewer or more than the preset says")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--matmul", default="float32")
    parser.add_argument("--accelerate", default="auto")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        label, seed, folder, settings = args.one
        print(json.dumps(train(args.suites[0], label, int(seed), Path(folder), json.loads(settings))))
        return 0
    settings = {"device": args.device, "matmul": args.matmul, "accelerate": args.accelerate}
    settings |= {"offline_updates": args.updates} if args.updates else {}
    tables = {suite: Table(suite, made(suite, args.data)) for suite in args.suites}
    wanted = [
        (table, label, seed) for seed in range(args.seeds) for table in tables.values()
        for label in args.algos or algorithms_for(table.suite) if not table.has(label, seed)
    ]  # fmt: skip
    failed = 0
    with ThreadPoolExecutor(args.jobs) as pool:
        futures = {pool.submit(in_process, t.suite, label, seed, t.path, settings): (t, label, seed) for t, label, seed in wanted}
        for future in as_completed(futures):
            table, label, seed = futures[future]
            try:
                row = future.result()
            except RuntimeError as error:  # one failure must not lose the others
                failed += 1
                print(error, file=sys.stderr, flush=True)
                continue
            table.add(label, row)
            print(f"{table.suite:26}{label:14} seed {seed}: {row['last']:10.1f}  (data {table.data['mean']:.1f})  "
                  f"{row['wall_s']} s, cpu {row['cpu_s']} s", flush=True)  # fmt: skip
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
