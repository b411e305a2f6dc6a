"""Offline to online: how much of each batch comes from where, and restoring."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from rl_training.data.dataset import Dataset
from rl_training.data.dataset_buffer import DatasetBuffer
from rl_training.data.mixture import MixtureBuffer
from rl_training.data.replay_buffer import ReplayBuffer
from rl_training.specs import ActionSpec, Leaf, ObsSpec

OBS = ObsSpec((Leaf("a", (1,), "float32"), Leaf("b", (2,), "float32")))
ACTION = ActionSpec("continuous", dim=1)


def observations(rows: np.ndarray) -> dict[str, np.ndarray]:
    return {"a": rows[..., None].astype(np.float32), "b": np.stack([rows, -rows], -1).astype(np.float32)}


def mixture(fraction: float | None, batch_size: int = 64, stored: int = 30, ratio: float = 1.0, warmup: int = 0) -> MixtureBuffer:
    """Offline rows are numbered from 1000, online ones from 0; reward, action and observation are that number."""
    rows = np.arange(1_000, 1_000 + stored)
    no = np.zeros(stored, np.bool_)
    data = Dataset(
        obs=observations(rows), action=rows[:, None].astype(np.float32), reward=rows.astype(np.float32), terminated=no,
        truncated=no, next_obs=observations(rows), name="made", sha256="0" * 64, source="test",
    )  # fmt: skip
    offline = DatasetBuffer(data, OBS, ACTION, batch_size=batch_size, gamma=0.9, seed=1)
    online = ReplayBuffer(OBS, ACTION, capacity=100, batch_size=batch_size, gamma=0.9, ratio=ratio, warmup=warmup, seed=2)
    return MixtureBuffer(online, offline, fraction)


def steps(first: int, count: int) -> dict[str, Any]:
    rows = np.arange(first, first + count)[:, None]
    no = np.zeros(rows.shape, np.bool_)
    return {
        "obs": observations(rows), "action": rows[..., None].astype(np.float32), "reward": rows.astype(np.float32),
        "terminated": no, "truncated": no, "next_obs": observations(rows),
    }  # fmt: skip


def batches(buffer: MixtureBuffer, new: int) -> list[dict[str, Any]]:
    return list(buffer.batches(new, lambda rollout: rollout))


@pytest.mark.parametrize("batch_size", [1, 10, 50, 64, 256])
@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.25, 0.3, 0.5, 0.7, 0.9, 0.95, 1.0])
def test_the_offline_share_of_a_batch_is_exact(fraction: float, batch_size: int) -> None:
    buffer = mixture(fraction, batch_size)
    buffer.add(steps(0, 20))
    (batch,) = batches(buffer, 1)
    offline = int((batch["reward"] >= 1_000).sum())
    assert len(batch["reward"]) == batch_size
    assert offline == int(fraction * batch_size + 1e-6), f"{offline} of {batch_size}"


def test_rows_stay_together() -> None:
    buffer = mixture(0.5)
    buffer.add(steps(0, 20))
    (batch,) = batches(buffer, 1)
    number = batch["reward"]
    assert torch.equal(batch["obs"]["a"][:, 0], number)
    assert torch.equal(batch["obs"]["b"], torch.stack([number, -number], -1))
    assert torch.equal(batch["next_obs"]["a"][:, 0], number)
    assert torch.equal(batch["action"][:, 0], number)
    assert set(batch) >= {"discount", "weight", "index"}


def test_every_slice_of_a_batch_is_mixed() -> None:
    buffer = mixture(0.25)
    buffer.add(steps(0, 20))
    (batch,) = batches(buffer, 1)
    for part in (batch["reward"] >= 1_000).split(8):
        assert part.sum() == 2, part


def test_without_a_fraction_each_side_counts_by_its_size() -> None:
    buffer = mixture(None, batch_size=60, stored=30)
    shares = []
    for first in (0, 30):
        buffer.add(steps(first, 30))
        (batch, *_) = batches(buffer, 1)
        shares.append(int((batch["reward"] >= 1_000).sum()))
    assert shares == [30, 20], "30 stored rows beside 30, then 60, of our own"


def test_only_the_dataset_before_the_first_env_step() -> None:
    buffer = mixture(0.5)
    got = batches(buffer, 3)
    assert len(got) == 3
    assert all((batch["reward"] >= 1_000).all() for batch in got)


def test_env_steps_earn_updates_at_the_ratio_of_the_replay() -> None:
    buffer = mixture(0.5, ratio=0.5, warmup=6)
    assert buffer.updates_per_step == 0.5
    counts = []
    for first in range(0, 12, 2):
        buffer.add(steps(first, 2))
        counts.append(len(batches(buffer, 2)))
    assert counts == [0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize("online", [0, 20])
def test_a_restored_mixture_continues_bit_for_bit(online: int) -> None:
    first, second = mixture(0.5), mixture(0.5)
    if online:
        first.add(steps(0, online))
    batches(first, 2)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for buffer in (first, second):
        buffer.add(steps(500, 5))
    for a, b in zip(batches(first, 3), batches(second, 3), strict=True):
        assert torch.equal(a["reward"], b["reward"]) and torch.equal(a["obs"]["b"], b["obs"]["b"])
