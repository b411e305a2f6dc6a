"""Updates per second on a CUDA GPU: eager, captured, compiled, and captured compiled kernels, with the replay resident.

    python benchmarks/gpu.py [--out FILE]
    python benchmarks/gpu.py --algos td3_bc --modes eager "compile+graph tf32" --timed 1000000   # a million updates

Networks of 2 x 256 on 17 observations and 6 actions (HalfCheetah's), batch 256, a million random rows, float32. Every mode starts
from the same weights and generator; the table says whether its weights after 1,000 updates equal the eager ones bit for bit.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rl_training.algorithms import find
from rl_training.config import TrainConfig
from rl_training.data.batch import BLOCK, Draws
from rl_training.data.resident import ResidentRows
from rl_training.data.storage import Storage
from rl_training.runtime.learner import Learner
from rl_training.specs import ActionSpec, Leaf, ObsSpec

ROWS, BATCH = 1_000_000, 256
OBS, ACTION = ObsSpec((Leaf("", (17,), "float32"),)), ActionSpec("continuous", dim=6)
MODES = ("eager", "graph", "compile", "compile+graph", "compile+graph tf32")


def resident(device: torch.device) -> ResidentRows:
    """A million random transitions, one in a hundred of them terminal."""
    storage, rng = Storage(OBS, ACTION, ROWS, 1), np.random.default_rng(0)
    storage.rows[:] = rng.standard_normal(storage.rows.shape, np.float32)
    storage.rows[:, 17:23] = storage.rows[:, 17:23].clip(-1, 1)
    storage.rows[:, -3:] = (rng.random((ROWS, 3)) < (0.01, 0.0, 1.0)).astype(np.float32)
    storage.filled = storage.steps
    return ResidentRows(storage, device, BATCH, 1, 0.99)


def run(name: str, mode: str, tf32: bool, draw: ResidentRows, timed: int) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
    """Weights after 1,000 updates, and the rate over `timed` more."""
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = tf32
    block = Draws(draw, BLOCK)  # as a run from stored data makes them
    agent = find(name)
    algorithm = agent.build(TrainConfig(algo=name, env_id="HalfCheetah-v5"), OBS, ACTION).algorithm
    learner = Learner(algorithm, str(draw.rows.device), mode)
    torch.cuda.manual_seed(0)
    started = time.perf_counter()
    for _ in range(3):
        learner.update(block)
    torch.cuda.synchronize()
    start_up = time.perf_counter() - started
    while learner.updates < 1_000:
        learner.update(block)
    weights = {key: value.clone() for key, value in algorithm.state_dict().items()}
    torch.cuda.synchronize()
    started, cpu = time.perf_counter(), time.process_time()
    for _ in range(timed // BLOCK):
        learner.update(block)
    learner.drain()
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    return weights, {"updates_per_s": timed / seconds, "cpu_us_per_update": 1e6 * cpu / timed, "start_up_s": start_up}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algos", nargs="+", default=["sac", "td3_bc"])
    parser.add_argument("--modes", nargs="+", default=list(MODES))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--timed", type=int, default=20_000)
    args = parser.parse_args()
    draw = resident(torch.device("cuda"))
    report: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(), "gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
        "python": platform.python_version(), "command": "python benchmarks/gpu.py", "algorithms": {},
    }  # fmt: skip
    for name in args.algos:
        rows: dict[str, dict[str, float | bool]] = {}
        for mode in args.modes:
            kind = mode.removesuffix(" tf32")
            weights, numbers = run(name, kind, kind != mode, draw, 1_000 if mode == "eager" else args.timed)
            if mode == "eager":
                eager = weights
            gap = max(float((weights[key].double() - eager[key].double()).abs().max()) for key in eager)
            rows[mode] = numbers | {"bitwise_equal_to_eager": gap == 0.0, "largest_difference": gap}
            rows[mode]["ratio"] = numbers["updates_per_s"] / rows["eager"]["updates_per_s"]
            print(f"{name:8}{mode:20}" + "  ".join(f"{k} {v:,.6g}" for k, v in rows[mode].items()), flush=True)
        report["algorithms"][name] = rows
    if args.out:
        args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
