"""The runs that the crash tests kill: tiny, but with every kind of state that a run can have."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

TINY: dict[str, Any] = {
    "hidden": (8, 8), "seed": 3, "checkpoint_every": 128, "eval_every": 384, "num_episodes": 2, "logging_every": 96,
    "tensorboard": False, "progress": "quiet", "accelerate": "eager",
}  # fmt: skip
REPLAY: dict[str, Any] = {"batch_size": 16, "learning_starts": 100, "train_freq": 4}


@dataclass(frozen=True)
class Scenario:
    """One run: which algorithm on which environment, under which settings."""

    algo: str
    env_id: str
    settings: dict[str, Any]
    needs_data: bool = False

    def keywords(self, workspace: Path) -> dict[str, Any]:
        data = {"dataset": str(workspace / "data")} if self.needs_data else {}
        return TINY | self.settings | data


SCENARIOS: dict[str, Scenario] = {
    "ppo": Scenario("ppo", "CartPole-v1", {
        "num_envs": 4, "total_steps": 1024, "num_steps": 16, "minibatches": 2, "epochs": 2, "anneal_lr": True,
        "normalize_obs": True, "normalize_reward": True,
    }),
    "dqn": Scenario("dqn", "CartPole-v1", REPLAY | {
        "env_backend": "sync", "num_envs": 2, "total_steps": 1152, "buffer_size": 400, "n_step": 3, "priority": 0.6,
        "train_freq": 5, "dueling": True, "target_update_interval": 200, "exploration_fraction": 0.5,
    }),
    "sac": Scenario("sac", "Pendulum-v1", REPLAY | {
        "env_backend": "native", "num_envs": 2, "total_steps": 1024, "buffer_size": 600,
    }),
    "td3": Scenario("td3", "Pendulum-v1", REPLAY | {
        "env_backend": "sync", "num_envs": 2, "total_steps": 1024, "normalize_obs": True,
    }),
    "td3_bc": Scenario("td3_bc", "Pendulum-v1", {"batch_size": 16, "offline_updates": 896}, needs_data=True),
    "finetune": Scenario("td3", "Pendulum-v1", REPLAY | {
        "offline_updates": 256, "total_steps": 640, "normalize_obs": True,
    }, needs_data=True),
}  # fmt: skip


def write_random_pendulum(folder: Path, rows: int = 1000) -> None:
    """A dataset of random actions, in the package's own format."""
    from rl_training.data.dataset import Dataset
    from rl_training.data.formats.native import write_dataset
    from rl_training.envs.native import make_native

    env, rng = make_native("Pendulum-v1", 1), np.random.default_rng(0)
    columns: dict[str, list[Any]] = {k: [] for k in ("obs", "action", "reward", "terminated", "truncated", "next_obs")}
    obs = env.reset(seed=0)[0]
    for _ in range(rows):
        action = rng.uniform(-1, 1, (1, 1)).astype(np.float32)
        after, reward, terminated, truncated, infos = env.step(2 * action)
        successor = infos.get("final_obs", after)
        for name, value in zip(columns, (obs, action, reward.astype(np.float32), terminated, truncated, successor)):
            columns[name].append(value[0])
        obs = after
    arrays = {name: np.stack(values) for name, values in columns.items()}
    write_dataset(Dataset(**arrays, name="random", sha256="", source="", env_id="Pendulum-v1"), folder)
