"""What do REDQ's ten critics cost? CPU time per update of REDQ and of SAC on the same networks and batches.

    python benchmarks/ensemble_cost.py        # prints the ratio and stores it in benchmarks/results/ensemble_cost.json

Both run alternately in one process, on one thread; the smallest time of each counts. An update of REDQ is the mean over a cycle
of 20 updates of the critics and one of the actor.
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

from rl_training import REDQ, SAC
from rl_training.config import TrainConfig
from rl_training.experiment.manifest import versions
from rl_training.runtime.learner import Learner
from rl_training.specs import ActionSpec, Leaf, ObsSpec

OUT = Path(__file__).resolve().parent / "results" / "ensemble_cost.json"
OBS, ACTION = ObsSpec((Leaf("", (17,), "float32"),)), ActionSpec("continuous", dim=6)  # as HalfCheetah
BATCH, CYCLE, BOUND = 256, 20, 2.5


def learner(kind: Any, mode: str) -> Learner:
    torch.manual_seed(0)
    config = TrainConfig(algo=kind.name, env_id="Pendulum-v1")
    return Learner(kind.build(config, OBS, ACTION).algorithm, mode=mode)


def seconds(learner: Learner, batch: dict[str, Any]) -> float:
    """CPU seconds per update over one cycle."""
    start = time.process_time()
    for _ in range(CYCLE):
        learner.update(batch)
    return (time.process_time() - start) / CYCLE


def measure(mode: str, repeats: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)

    def rows(*shape: int) -> torch.Tensor:
        return torch.from_numpy(rng.standard_normal(shape).astype(np.float32))

    batch = {"obs": rows(BATCH, 17), "next_obs": rows(BATCH, 17), "action": rows(BATCH, 6).tanh(), "reward": rows(BATCH),
             "discount": torch.full((BATCH,), 0.99), "weight": torch.ones(BATCH)}  # fmt: skip
    learners = {kind.name: learner(kind, mode) for kind in (SAC, REDQ)}
    best = {name: min(seconds(one, batch) for _ in range(2)) for name, one in learners.items()}  # warm, compiled
    for _ in range(repeats):
        best = {name: min(best[name], seconds(one, batch)) for name, one in learners.items()}
    ratio = best["redq"] / best["sac"]
    return {"mode": mode, **{f"{name}_ms": round(1e3 * s, 3) for name, s in best.items()}, "ratio": round(ratio, 3)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modes", nargs="*", default=["eager", "compile"])
    parser.add_argument("--repeats", type=int, default=15)
    args = parser.parse_args()
    torch.set_num_threads(1)
    found = [measure(mode, args.repeats) for mode in args.modes]
    for row in found:
        print(f"{row['mode']}: SAC {row['sac_ms']} ms, REDQ {row['redq_ms']} ms; ratio {row['ratio']} (at most {BOUND})")
    record = {
        "bound": BOUND, "batch": BATCH, "hidden": [256, 256], "critics": 10, "modes": found, "repeats": args.repeats,
        "command": "python benchmarks/ensemble_cost.py", "versions": versions(),
        "hardware": platform.processor() or platform.machine(), "date": datetime.now(UTC).date().isoformat(),
    }  # fmt: skip
    OUT.write_text(json.dumps(record, indent=1) + "\n")
    return 0 if all(row["ratio"] <= BOUND for row in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
