"""On a GPU: a run whose updates are replayed from CUDA graphs ends with the very weights of the run that is not captured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rl_training.algorithms import REGISTRY, find
from rl_training.data.dataset import Dataset
from rl_training.data.formats.native import write_dataset
from rl_training.errors import ConfigError

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
QUIET: dict[str, Any] = {
    "hidden": (32, 32), "seed": 5, "checkpoint_every": 0, "eval_every": 200, "num_episodes": 2, "logging_every": 100,
    "tensorboard": False, "progress": "quiet", "total_steps": 600,
}  # fmt: skip
ONLINE = [name for name, entry in REGISTRY.items() if not entry.needs_data]
OFFLINE = [name for name, entry in REGISTRY.items() if entry.offline]
SPECIAL = [("dqn", {"priority": 0.6, "n_step": 3}), ("sac", {"n_step": 3, "normalize_obs": True}), ("td3", {"num_envs": 3})]
SPECIAL += [("trpo", {"num_steps": 8, "minibatches": 4, "critic_epochs": 2})]  # rollouts enough to replay both kinds of update


def random_data(folder: Path, rows: int = 600) -> None:
    """Random steps of a task like Pendulum."""
    rng = np.random.default_rng(0)
    obs, after = (rng.uniform(-1, 1, (rows, 3)).astype(np.float32) for _ in range(2))
    data = Dataset(
        obs=obs, next_obs=after, action=rng.uniform(-1, 1, (rows, 1)).astype(np.float32), truncated=np.arange(rows) % 100 == 99,
        reward=rng.standard_normal(rows).astype(np.float32), terminated=np.zeros(rows, np.bool_), name="", sha256="", source="",
    )  # fmt: skip
    write_dataset(data, folder)


def weights(name: str, folder: Path, **settings: Any) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    env_id = "Pendulum-v1" if "continuous" in REGISTRY[name].actions else "CartPole-v1"
    agent = find(name)(env_id, device="cuda", output_dir=str(folder), **QUIET | settings).learn()
    assert agent.result is not None and agent.config.runtime.accelerate == settings["accelerate"]
    return {k: v.cpu().numpy() for k, v in agent.parts.algorithm.state_dict().items()}, agent.result.metrics


@needs_gpu
@pytest.mark.parametrize(("name", "settings"), [*((name, {}) for name in ONLINE), *SPECIAL])
def test_a_captured_run_equals_its_eager_one_bit_for_bit(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    eager, eager_metrics = weights(name, tmp_path / "eager", accelerate="eager", **settings)
    graph, graph_metrics = weights(name, tmp_path / "graph", accelerate="graph", **settings)
    differ = [key for key in eager if not np.array_equal(eager[key], graph[key], equal_nan=True)]
    assert differ == [], differ
    assert graph_metrics == eager_metrics


@needs_gpu
@pytest.mark.parametrize("name", OFFLINE)
def test_captured_blocks_of_updates_from_stored_data_equal_their_eager_ones(name: str, tmp_path: Path) -> None:
    random_data(tmp_path / "data")
    settings = {"dataset": str(tmp_path / "data"), "total_steps": 0, "offline_updates": 170}  # 8 blocks of 20, and a rest
    eager, eager_metrics = weights(name, tmp_path / "eager", accelerate="eager", **settings)
    graph, graph_metrics = weights(name, tmp_path / "graph", accelerate="graph", **settings)
    assert [key for key in eager if not np.array_equal(eager[key], graph[key], equal_nan=True)] == []
    assert graph_metrics == eager_metrics


@needs_gpu
@pytest.mark.parametrize("name", ["sac", "ppo"])
def test_a_captured_run_resumes_exactly(name: str, tmp_path: Path) -> None:
    from rl_training.experiment.callbacks import Callback

    class Stop(Callback):
        def on_checkpoint(self, run: Any, path: Path) -> None:
            raise KeyboardInterrupt

    env_id = "Pendulum-v1" if name == "sac" else "CartPole-v1"
    settings = QUIET | {"device": "cuda", "accelerate": "graph", "checkpoint_every": 250}
    straight = find(name)(env_id, output_dir=str(tmp_path / "a"), **settings).learn()
    with pytest.raises(KeyboardInterrupt):
        find(name)(env_id, output_dir=str(tmp_path / "b"), **settings).learn(callbacks=[Stop()])
    resumed = find(name).resume(next((tmp_path / "b").iterdir()))
    a, b = straight.parts.algorithm.state_dict(), resumed.parts.algorithm.state_dict()
    assert [key for key in a if not torch.equal(a[key], b[key])] == []


def test_a_graph_on_the_cpu_is_refused_with_what_to_type(tmp_path: Path) -> None:
    agent = find("ppo")("CartPole-v1", accelerate="graph", output_dir=str(tmp_path))
    with pytest.raises(ConfigError, match=r"--runtime\.device cuda"):
        agent.learn()
