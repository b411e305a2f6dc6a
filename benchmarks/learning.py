"""Does it learn? Trains each task over several seeds from its preset and stores every seed's result.

    python benchmarks/learning.py                      # every preset with a contract, as many at once as there are cores
    python benchmarks/learning.py ppo/CartPole-v1 --jobs 2

The score of a seed is the mean return of its best checkpoint on 50 fresh evaluation episodes, or with `measure: success` the part
of them that succeed; the last checkpoint's is stored beside it. A contract may name a control: settings that must not score more
than `at_most`, trained on the same seeds. Results go to src/rl_training/zoo/results/ALGO__ENV.json with command, versions,
hardware and date.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).resolve().parent.parent / "src" / "rl_training" / "zoo" / "results"
EPISODES = 50


class Contract(NamedTuple):
    """What a preset promises: a score, how many of its seeds must reach it ("all", "median", "4 of 5", ...), and the seeds."""

    score: float
    rule: str
    seeds: int
    measure: str = "return"  # or "success"
    control: dict[str, Any] | None = None  # {settings: {...}, at_most: score}


def contracts() -> dict[str, Contract]:
    """The promises of all presets that make one, by algorithm and environment."""
    from rl_training.config.layers import PRESETS
    from rl_training.config.yaml_reader import read_yaml

    found = {}
    for path in sorted(PRESETS.glob("*/*.yaml")):
        values = read_yaml(path).values
        if promise := values.get("contract"):
            contract = Contract(**promise | {"score": float(promise["score"]), "rule": str(promise["rule"])})
            found[f"{values['algo']}/{values['env_id']}"] = contract
    return found


TASKS = contracts()


def train_seed(task: str, seed: int, output: Path) -> dict[str, Any]:
    """Train one seed and measure it; runs in a process of its own."""
    import torch

    from rl_training import algorithms
    from rl_training.config import find_preset, load_config, override

    torch.set_num_threads(1)
    algo, env_id = task.split("/", 1)
    preset = find_preset(algo, env_id)
    assert preset is not None, f"no preset for {task}"
    quiet = {"seed": seed, "output_dir": str(output), "progress": "quiet", "tensorboard": False}
    kind = algorithms.find(algo)
    config = load_config(preset, quiet | ({"dataset": str(DATA[task](output, seed))} if task in DATA else {}))
    started, cpu = time.perf_counter(), time.process_time()
    agent = kind(config).learn()
    assert agent.result is not None
    measure, control = TASKS[task].measure, TASKS[task].control
    row: dict[str, Any] = {
        "seed": seed, "wall_s": round(time.perf_counter() - started, 1), "cpu_s": round(time.process_time() - cpu, 1),
        "env_steps": int(agent.result.metrics["global_step"]), "updates": int(agent.result.metrics["updates"]),
        "last": score(agent, measure), "best": score(kind.load(agent.result.run_dir), measure),
        "curve": [
            [entry["step"], round(entry["mean" if measure == "return" else "success_rate"], 2)]
            for entry in map(json.loads, (agent.result.run_dir / "evaluations.jsonl").read_text().splitlines())
        ],
    }  # fmt: skip
    if TASKS[task].rule.startswith("beats"):
        row |= compare_with_cloning(config)
    if control is not None:
        compared = kind(override(config, **control["settings"])).learn()
        assert compared.result is not None
        row["control"] = score(kind.load(compared.result.run_dir), measure)
    return row


def score(agent: Any, measure: str) -> float:
    """What the contract counts, over fresh episodes."""
    result = agent.evaluate(EPISODES)
    value: float = result.mean if measure == "return" else result.success_rate
    return value


def mixed_pendulum(folder: Path, seed: int) -> Path:
    """Steps of our own SAC on Pendulum at three stages of its training, and random ones: 10,000 of each."""
    from rl_training import SAC
    from rl_training.config import TrainConfig, find_preset, load_config
    from rl_training.data.formats.native import write_dataset
    from rl_training.experiment.callbacks import Callback
    from rl_training.experiment.recording import Source, record

    preset = find_preset("sac", "Pendulum-v1")
    assert preset is not None
    quiet = {"output_dir": str(folder), "progress": "quiet", "tensorboard": False, "seed": 1000 + seed, "total_steps": 6000}
    stages: list[Path] = []

    class Keep(Callback):
        def on_checkpoint(self, run: Any, path: Path) -> None:
            stages.append(run.agent.save(folder / f"behaviour-{seed}-{len(stages)}"))

    SAC(load_config(preset, quiet | {"checkpoint_every": 2000, "eval_every": 0})).learn(callbacks=[Keep()])
    agents = [SAC.load(path) for path in stages[:3]]
    sources = [Source(None, 10_000), *(Source(agent, 10_000) for agent in agents)]
    data = record(TrainConfig(algo="sac", env_id="Pendulum-v1"), sources, seed)
    out = folder / f"mixed-pendulum-{seed}"
    write_dataset(data, out, made={"by": "SAC at 2,000, 4,000 and 6,000 steps, and random", "steps": len(data), "seed": seed})
    return out


def scripted_mountain_car(folder: Path, seed: int) -> Path:
    """Ten episodes or so of pushing with full force the way the car is moving, which reaches the goal."""
    from rl_training.config import TrainConfig
    from rl_training.data.formats.native import write_dataset
    from rl_training.envs.scripted import rock_the_car
    from rl_training.experiment.recording import Source, record

    data = record(TrainConfig(algo="sac", env_id="MountainCarContinuous-v0"), [Source(rock_the_car, 1_100)], seed)
    assert data.terminated.sum() >= len(data.episode_starts()) - 1, "every scripted episode but the one cut reaches the goal"
    out = folder / f"scripted-mountain-car-{seed}"
    write_dataset(data, out, made={"by": "full force the way the car is moving", "steps": len(data), "seed": seed})
    return out


def compare_with_cloning(config: Any) -> dict[str, Any]:
    """The same data, network and number of updates with behaviour cloning alone (the Q term weighted 0), and the data's mean."""
    from rl_training import TD3BC
    from rl_training.config import override
    from rl_training.data.dataset import load_dataset

    cloned = TD3BC(override(config, bc_alpha=0.0)).learn()
    returns = load_dataset(config.dataset).episode_returns()
    full = [float(value) for value in returns]
    return {"cloning_last": cloned.evaluate(EPISODES).mean, "data_mean": statistics.fmean(full), "data_episodes": len(full)}


# What a task learns from besides its own steps.
DATA = {"td3_bc/Pendulum-v1": mixed_pendulum, "rlpd/MountainCarContinuous-v0": scripted_mountain_car}


def verdict(task: str, rows: list[dict[str, Any]]) -> bool:
    threshold, rule, control = TASKS[task].score, TASKS[task].rule, TASKS[task].control
    if control is not None and max(row["control"] for row in rows) > control["at_most"]:
        return False  # a control that gets there too shows that the task is no test
    scores = [row["best"] for row in rows]
    if rule == "median":
        return statistics.median(scores) >= threshold
    if rule.startswith("beats"):
        return all(row["last"] > max(row["cloning_last"], row["data_mean"]) for row in rows)
    missed = sum(score < threshold for score in scores)
    return missed == 0 if rule == "all" else missed <= len(scores) // 5


def run_seed(task: str, seed: int) -> dict[str, Any]:
    """One seed in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, task, "--one-seed", str(seed), "--work", folder]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        if done.returncode:
            raise RuntimeError(f"{task} seed {seed} failed:\n{done.stderr}")
        row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    others = {k: round(row[k], 2) for k in ("last", "cloning_last", "data_mean", "control") if k in row}
    print(f"  {task} seed {seed}: best {row['best']:.2f}  {others}  cpu {row['cpu_s']} s", flush=True)
    return row


def store(task: str, rows: list[dict[str, Any]], out: Path) -> bool:
    """Write and print what a task's seeds reached."""
    from rl_training.experiment.manifest import versions

    threshold, rule, _, measure, control = TASKS[task]
    passed = verdict(task, rows)
    record = {
        "task": task, "bar": threshold, "rule": rule, "measure": measure, "control": control, "passed": passed,
        "episodes": EPISODES, "seeds": rows,
        "command": f"python benchmarks/learning.py {task}", "versions": versions(),
        "hardware": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores",
        "date": datetime.now(UTC).date().isoformat(),
    }  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{task.replace('/', '__')}.json").write_text(json.dumps(record, indent=1) + "\n")
    scores = [row["best"] for row in rows]
    outcome = "pass" if passed else "MISSED"
    print(f"{task}: median {statistics.median(scores):.2f}, bar {threshold:g} ({rule}): {outcome}", flush=True)
    return passed


def run_tasks(tasks: list[str], jobs: int, out: Path) -> bool:
    """Train all seeds of all tasks, `jobs` at a time. A task is stored when its last seed is done; a failing one is reported."""
    passed = True
    with ThreadPoolExecutor(jobs) as pool:
        running = {task: [pool.submit(run_seed, task, seed) for seed in range(TASKS[task].seeds)] for task in tasks}
        for task, seeds in running.items():
            try:
                passed &= store(task, [seed.result() for seed in seeds], out)
            except RuntimeError as error:
                print(error, flush=True)
                passed = False
    return passed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=list(TASKS), help=f"among {', '.join(TASKS)}")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--one-seed", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one_seed is not None:
        print(json.dumps(train_seed(args.tasks[0], args.one_seed, args.work)))
        return 0
    return 0 if run_tasks(args.tasks, args.jobs, args.out) else 1


if __name__ == "__main__":
    raise SystemExit(main())
