"""Golden traces: a refactor must reproduce these numbers. `python tests/golden/test_traces.py` records them anew, on purpose."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rl_training import algorithms
from rl_training.data.dataset import Dataset
from rl_training.data.formats.native import write_dataset

FILE = Path(__file__).parent / "traces.json"
QUIET = {"progress": "quiet", "tensorboard": False, "hidden": (8, 8), "num_episodes": 2, "seed": 3, "accelerate": "eager"}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("CartPole-v1", {"total_steps": 1024, "num_steps": 32, "num_envs": 4}),
    "dqn": ("CartPole-v1", {"total_steps": 600, "learning_starts": 100, "n_step": 3, "priority": 0.6, "dueling": True}),
    "sac": ("Pendulum-v1", {"total_steps": 300, "learning_starts": 100, "batch_size": 32}),
    "td3": ("Pendulum-v1", {"total_steps": 300, "learning_starts": 100, "batch_size": 32}),
    "td3_bc": ("Pendulum-v1", {"offline_updates": 200, "batch_size": 32}),
}


def trace(name: str, folder: Path) -> dict[str, float]:
    """Sums over the trained parameters, and the last evaluation."""
    torch.set_num_threads(1)
    env_id, settings = RUNS[name]
    if name == "td3_bc":
        rng = np.random.default_rng(0)
        rows = {key: rng.standard_normal((300, 3)).astype(np.float32) for key in ("obs", "next_obs")}
        ended = np.arange(300) % 100 == 99
        write_dataset(
            Dataset(**rows, action=rng.uniform(-1, 1, (300, 1)).astype(np.float32), reward=rows["obs"][:, 0].copy(),
                    terminated=np.zeros(300, np.bool_), truncated=ended, name="golden", sha256="", source="test"),
            folder / "data",
        )  # fmt: skip
        settings = settings | {"dataset": str(folder / "data")}
    agent = algorithms.find(name)(env_id, output_dir=str(folder), **QUIET, **settings).learn()
    parameters = [p.detach().double() for p in agent.parts.algorithm.parameters()]
    return {
        "sum": float(sum(p.sum() for p in parameters)),
        "magnitude": float(sum(p.abs().sum() for p in parameters)),
        "evaluation": agent.result.metrics["eval/mean"],
    }


@pytest.mark.parametrize("name", RUNS)
def test_the_trace_is_reproduced(name: str, tmp_path: Path) -> None:
    # Rounding differs between processors, and a few hundred updates amplify it: four digits are what can be promised.
    expected, found = json.loads(FILE.read_text())[name], trace(name, tmp_path)
    assert found["magnitude"] == pytest.approx(expected["magnitude"], rel=1e-4), (found, expected)
    assert found["sum"] == pytest.approx(expected["sum"], abs=1e-4 * expected["magnitude"]), (found, expected)
    assert found["evaluation"] == pytest.approx(expected["evaluation"], rel=0.02, abs=2.0), (found, expected)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        traces = {name: trace(name, Path(work) / name) for name in RUNS if (Path(work) / name).mkdir() is None}
    FILE.write_text(json.dumps(traces, indent=1) + "\n")
