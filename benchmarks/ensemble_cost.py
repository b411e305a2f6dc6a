"""What do ten critics cost, and what that they must differ? Time per update of REDQ beside SAC, and of EDAC beside SAC-N.

    python benchmarks/ensemble_cost.py        # prints the ratios and stores them in benchmarks/results/ensemble_cost.json
    python benchmarks/ensemble_cost.py --device cuda --modes graph compile+graph --out FILE

The two of a pair have the same networks and batches and run alternately in one process, on one thread; the smallest time of each
counts (CPU time, or on a GPU the time until it has finished). An update of REDQ is the mean over a cycle of 20 updates of the
critics and one of the actor.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rl_training import EDAC, REDQ, SAC, SACN
from rl_training.config import from_keywords
from rl_training.experiment.manifest import versions
from rl_training.runtime.learner import Learner
from rl_training.specs import ActionSpec, Leaf, ObsSpec

OUT = Path(__file__).resolve().parent / "results" / "ensemble_cost.json"
OBS, ACTION = ObsSpec((Leaf("", (17,), "float32"),)), ActionSpec("continuous", dim=6)  # as HalfCheetah
BATCH, CYCLE, CRITICS = 256, 20, 10


@dataclass(frozen=True)
class Pair:
    """Two algorithms, and how many times the second may cost the first."""

    plain: Any
    dear: Any
    hidden: tuple[int, ...]
    bound: float


PAIRS = [Pair(SAC, REDQ, (256, 256), 2.5), Pair(SACN, EDAC, (256, 256, 256), 3.0)]


def learner(kind: Any, hidden: tuple[int, ...], mode: str, device: str) -> Learner:
    torch.manual_seed(0)
    members = {} if kind is SAC else {"members": CRITICS}
    config = from_keywords(kind.name, env_id="Pendulum-v1", hidden=hidden, **members)
    return Learner(kind.build(config, OBS, ACTION).algorithm, device, mode)


def seconds(learner: Learner, batch: dict[str, Any]) -> float:
    """Seconds per update over one cycle."""
    on_gpu = learner.device.type == "cuda"
    clock = time.perf_counter if on_gpu else time.process_time
    start = clock()
    for _ in range(CYCLE):
        learner.update(batch)
    if on_gpu:
        torch.cuda.synchronize()
    return (clock() - start) / CYCLE


def measure(pair: Pair, mode: str, repeats: int, device: str) -> dict[str, Any]:
    rng = np.random.default_rng(0)

    def rows(*shape: int) -> torch.Tensor:
        return torch.from_numpy(rng.standard_normal(shape).astype(np.float32)).to(device)

    batch = {"obs": rows(BATCH, 17), "next_obs": rows(BATCH, 17), "action": rows(BATCH, 6).tanh(), "reward": rows(BATCH),
             "discount": torch.full((BATCH,), 0.99, device=device), "weight": torch.ones(BATCH, device=device)}  # fmt: skip
    plain, dear = pair.plain.name, pair.dear.name
    learners = {kind.name: learner(kind, pair.hidden, mode, device) for kind in (pair.plain, pair.dear)}
    best = {name: min(seconds(one, batch) for _ in range(3)) for name, one in learners.items()}  # warm, compiled
    for _ in range(repeats):
        best = {name: min(best[name], seconds(one, batch)) for name, one in learners.items()}
    ratio = round(best[dear] / best[plain], 3)
    print(f"{mode}: {plain} {1e3 * best[plain]:.1f} ms, {dear} {1e3 * best[dear]:.1f} ms; ratio {ratio} (at most {pair.bound})")
    times = {f"{name}_ms": round(1e3 * s, 3) for name, s in best.items()}
    return {"mode": mode, **times, "ratio": ratio, "bound": pair.bound, "hidden": pair.hidden}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modes", nargs="*", default=["eager", "compile"])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    torch.set_num_threads(1)
    found = [measure(pair, mode, args.repeats, args.device) for pair in PAIRS for mode in args.modes]
    record = {
        "batch": BATCH, "critics": CRITICS, "modes": found, "repeats": args.repeats,
        "command": "python benchmarks/ensemble_cost.py", "versions": versions(),
        "hardware": torch.cuda.get_device_name() if args.device != "cpu" else platform.processor() or platform.machine(),
        "date": datetime.now(UTC).date().isoformat(),
    }  # fmt: skip
    args.out.write_text(json.dumps(record, indent=1) + "\n")
    return 0 if all(row["ratio"] <= row["bound"] for row in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
