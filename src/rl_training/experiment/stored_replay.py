"""The steps in the replay buffer of a checkpoint, as they were collected: what a run has seen on its way there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rl_training.config import load_config
from rl_training.data.batch import tree_map
from rl_training.data.replay_buffer import ReplayBuffer
from rl_training.data.rewards import RewardMap
from rl_training.data.storage import Storage
from rl_training.errors import ConfigError
from rl_training.experiment.checkpointing import CheckpointStore
from rl_training.experiment.recording import Recorded, cut
from rl_training.experiment.resuming import make_agent
from rl_training.experiment.runs import read_run_info


def stored_steps(run_dir: Path, checkpoint: Path, limit: int | None = None) -> list[Recorded]:
    """One part per environment that was stepped, each in the order of its steps; of more than `limit` steps the newest."""
    config = load_config(run_dir / "config.yaml", preset=False)
    state = CheckpointStore(run_dir).load(checkpoint).parts.get("buffer", {})
    state = state.get("online", state)  # a run that began with a dataset mixes it with its own steps
    own = make_agent(config, None, None).parts.buffer
    if not isinstance(own, ReplayBuffer) or "storage" not in state or not state["storage"]["filled"]:
        raise ConfigError(
            f"{checkpoint} holds no replay buffer with steps in it.",
            f"It is of {config.algo}: only replay algorithms that acted in the environment keep one, and saved agents do not.",
            "Name a run of dqn, sac or td3, or record the agent itself by leaving out ,replay",
        )
    storage = own.storage
    storage.load_state_dict(state["storage"])
    wanted = len(storage) if limit is None else min(limit, len(storage))
    shares = np.full(storage.envs, wanted // storage.envs) + (np.arange(storage.envs) < wanted % storage.envs)
    change = _reward_change(run_dir)
    return [_of_one_env(storage, env, int(share), change) for env, share in enumerate(shares) if share]


def _reward_change(run_dir: Path) -> RewardMap:
    """What a run that began with a dataset did to the rewards of its own steps, too; it can be undone, but for a clip."""
    change = RewardMap(**(read_run_info(run_dir).get("dataset") or {}).get("reward", {}))
    if change.clip is not None or not change.scale:
        raise ConfigError(
            f"{run_dir} learned from changed rewards, and its replay has only those: what the environment gave cannot be told.",
            "They were clipped, or multiplied by 0.", "Record the agent itself by leaving out ,replay",
        )  # fmt: skip
    return change


def _of_one_env(storage: Storage, env: int, newest: int, change: RewardMap) -> Recorded:
    slots = (storage.head - newest + np.arange(newest)) % storage.steps
    rows = slots * storage.envs + env
    whole = newest == storage.written  # nothing was overwritten or left out, so the first step began an episode
    usable = storage.usable(rows)
    whole = whole and bool(usable[:1].all())
    rows = rows[usable]
    batch = storage.gather(rows, 1, 1.0)
    columns = {key: tree_map(lambda tensor: tensor.numpy(), batch[key]) for key in ("obs", "action", "reward", "next_obs")}
    columns["reward"] = ((columns["reward"] - change.bias) / change.scale).astype(np.float32)
    columns |= {"terminated": batch["discount"].numpy() == 0.0, "truncated": storage.rows[rows, -2] != 0}
    returns = _whole_returns(columns["reward"], columns["terminated"] | columns["truncated"], whole)
    return Recorded(cut(columns), returns)


def _whole_returns(reward: NDArray[np.float32], ends: NDArray[np.bool_], first_is_whole: bool) -> list[float]:
    stops = np.flatnonzero(ends) + 1
    starts = np.append(0, stops)[:-1]
    totals = [float(reward[start:stop].astype(np.float64).sum()) for start, stop in zip(starts, stops)]
    return totals if first_is_whole else totals[1:]
