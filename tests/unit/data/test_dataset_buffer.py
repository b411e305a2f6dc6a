"""Rows on disk give the batches that rows in memory give, and leave nothing behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from rl_training.data import dataset_buffer
from rl_training.data.dataset import Dataset
from rl_training.data.dataset_buffer import DatasetBuffer
from rl_training.data.extras import MC_RETURN, NEXT_ACTION
from rl_training.specs import ActionSpec, Leaf, ObsSpec

OBS, ACTION = ObsSpec((Leaf("", (3,), "float32"),)), ActionSpec("continuous", dim=2)


def random_data(rows: int = 50) -> Dataset:
    rng = np.random.default_rng(0)
    obs, after = (rng.standard_normal((rows, 3)).astype(np.float32) for _ in range(2))
    return Dataset(
        obs=obs, next_obs=after, action=rng.uniform(-1, 1, (rows, 2)).astype(np.float32), truncated=np.arange(rows) % 9 == 8,
        reward=rng.standard_normal(rows).astype(np.float32), terminated=np.arange(rows) % 7 == 6, name="", sha256="", source="",
    )  # fmt: skip


@pytest.mark.parametrize("block", [7, 1000])
def test_rows_on_disk_are_those_in_memory(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extras = frozenset({NEXT_ACTION, MC_RETURN})
    memory = DatasetBuffer(random_data(), OBS, ACTION, batch_size=16, gamma=0.9, extras=extras, seed=3)
    monkeypatch.setattr(dataset_buffer, "BLOCK_ROWS", block)
    disk = DatasetBuffer(random_data(), OBS, ACTION, batch_size=16, gamma=0.9, extras=extras, seed=3, scratch=tmp_path / "runs")
    for _ in range(3):
        one, other = (buffer.sample(16) for buffer in (memory, disk))
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)
    assert list((tmp_path / "runs").iterdir()) == [], "the file has no name, so nothing is left when the process ends"
    assert isinstance(disk.storage.rows.base, np.memmap)


def test_an_end_is_not_missed_where_blocks_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes whose return is known only in the next block."""
    monkeypatch.setattr(dataset_buffer, "BLOCK_ROWS", 4)
    buffer = DatasetBuffer(random_data(), OBS, ACTION, batch_size=16, gamma=0.9, extras=frozenset({MC_RETURN}))
    assert buffer.storage.extras is not None and buffer.storage.extras.returns is not None
    assert np.isfinite(buffer.storage.extras.returns).all()


def test_mapped_rows_stay_off_the_gpu(tmp_path: Path) -> None:
    buffer = DatasetBuffer(random_data(), OBS, ACTION, batch_size=4, gamma=0.9, scratch=tmp_path)
    buffer.reside(torch.device("cpu"))
    assert buffer.resident is None
