"""Packed rows: memory, the ring, and chunk versions that change exactly when their rows may have."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_training.data import chunked
from rl_training.data.frames import FrameStore
from rl_training.data.storage import Storage
from rl_training.specs import ActionSpec, Leaf, ObsSpec
from rl_training.state import ChunkedArray

OBS = ObsSpec((Leaf("", (1,), "float32"),))
DISCRETE = ActionSpec("discrete", (1_000_000,))


@pytest.fixture(autouse=True)
def _short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked, "CHUNK_ROWS", 8)


def chunk(first: int, steps: int, envs: int) -> dict[str, Any]:
    rows = np.arange(first, first + steps * envs).reshape(steps, envs)
    no = np.zeros(rows.shape, np.bool_)
    obs = rows[..., None].astype(np.float32)
    return {
        "obs": obs, "action": rows, "reward": obs[..., 0], "terminated": no, "truncated": no, "next_obs": obs + 0.5,
    }  # fmt: skip


def test_a_million_cheetah_transitions_take_little_more_than_their_numbers() -> None:
    storage = Storage(ObsSpec((Leaf("", (17,), "float32"),)), ActionSpec("continuous", dim=6), 1_000_000, 1)
    packed = 1_000_000 * (4 * (17 + 6 + 17 + 1) + 2)  # obs, action, next_obs, reward as float32; two flags as bytes
    assert storage.bytes_when_full <= 1.1 * packed, storage.bytes_when_full / packed


def test_bytes_when_full_counts_rows_and_frames() -> None:
    spec = ObsSpec((Leaf("camera", (4, 8, 8), "uint8", 4), Leaf("v", (3,), "float32")))
    storage = Storage(spec, DISCRETE, 1_000, 2)
    frames = storage.frames["camera"].frames
    assert storage.bytes_when_full == storage.rows.nbytes + frames.nbytes
    assert storage.rows.shape == (1_000, 3 + 1 + 3 + 4)
    assert frames.shape[1:] == (2, 64)


def test_capacity_is_shared_by_the_environments() -> None:
    storage = Storage(OBS, DISCRETE, 8, 3)
    assert (storage.steps, len(storage)) == (3, 0), "rounded up: eight rows must fit"
    for first in range(0, 30, 6):
        storage.add(chunk(first, 2, 3))
    assert len(storage) == 9
    kept = sorted(storage.gather(np.arange(9), 1, 0.9)["action"].tolist())
    assert kept == list(range(21, 30)), "the newest three steps of each environment"


def test_add_tells_which_rows_it_wrote() -> None:
    storage = Storage(OBS, DISCRETE, 8, 2)
    assert storage.add(chunk(0, 3, 2)).tolist() == [0, 1, 2, 3, 4, 5]
    assert storage.add(chunk(6, 2, 2)).tolist() == [6, 7, 0, 1]
    assert storage.gather(np.arange(8), 1, 0.9)["action"].tolist() == [8, 9, 2, 3, 4, 5, 6, 7]


def test_a_chunk_longer_than_the_ring_leaves_its_newest_steps() -> None:
    storage = Storage(OBS, DISCRETE, 4, 1)
    storage.add(chunk(0, 11, 1))
    assert sorted(storage.gather(np.arange(4), 1, 0.9)["action"].tolist()) == [7, 8, 9, 10]
    assert storage.gather(np.arange(4), 4, 1.0)["reward"].tolist() == [8 + 9 + 10, 9 + 10, 10, 7 + 8 + 9 + 10]


def test_discrete_actions_survive_packing() -> None:
    storage = Storage(OBS, DISCRETE, 4, 1)
    data = chunk(0, 2, 1)
    data["action"] = np.array([[999_999], [12_345]])
    storage.add(data)
    got = storage.gather(np.array([0, 1]), 1, 0.9)["action"]
    assert got.tolist() == [999_999, 12_345]


def check_versions(old: ChunkedArray, new: ChunkedArray, touched: list[bool]) -> None:
    """A version that stayed promises the same rows; a chunk that nobody wrote to keeps its version."""
    for i, (chunk_before, before) in enumerate(zip(old.chunks, old.versions)):
        if new.versions[i] == before:
            np.testing.assert_array_equal(new.chunks[i], chunk_before, err_msg=f"chunk {i} changed at version {before}")
        else:
            assert new.versions[i] > before, f"chunk {i}: {before} -> {new.versions[i]}"
        assert (new.versions[i] != before) == touched[i], f"chunk {i}: {before} -> {new.versions[i]}, written: {touched[i]}"
    assert len(new.chunks) >= len(old.chunks)


@settings(max_examples=50, deadline=None)
@given(
    capacity=st.integers(2, 60), envs=st.integers(1, 3), writes=st.lists(st.integers(1, 70), min_size=1, max_size=12)
)
def test_versions_of_row_chunks_change_exactly_with_their_rows(capacity: int, envs: int, writes: list[int]) -> None:
    storage = Storage(OBS, DISCRETE, capacity * envs, envs)
    first, old = 0, copy.deepcopy(storage.state_dict()["rows"])
    for length in writes:
        rows = storage.add(chunk(first, length, envs))
        first += length * envs
        new = copy.deepcopy(storage.state_dict()["rows"])
        steps = np.unique(rows // envs)
        touched = [bool(((steps >= i) & (steps < i + 8)).any()) for i in range(0, capacity, 8)]
        check_versions(old, new, touched)
        filled = storage.rows.reshape(storage.steps, -1)[: storage.filled]
        np.testing.assert_array_equal(np.concatenate(new.chunks), filled)
        old = new


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), envs=st.integers(1, 3), stack=st.integers(1, 3),
    writes=st.lists(st.integers(1, 30), min_size=1, max_size=10),
)  # fmt: skip
def test_versions_of_frame_chunks_change_exactly_with_their_frames(seed: int, envs: int, stack: int, writes: list[int]) -> None:
    rng = np.random.default_rng(seed)
    store = FrameStore(Leaf("", (stack, 1, 2), "uint8", stack), 20, envs)
    old = copy.deepcopy(store.state_dict()["frames"])
    at = 0
    for length in writes:
        before = store.count.copy()
        obs, next_obs = rng.integers(0, 256, (2, length, envs, stack, 1, 2)).astype(np.uint8)
        store.add(obs, next_obs, rng.random((length, envs)) < 0.2, (at + np.arange(length)) % 20)
        at += length
        pushed = [np.arange(a, b) % store.size for a, b in zip(before, store.count)]
        slots = np.unique(np.concatenate(pushed))
        touched = [bool(((slots >= i) & (slots < i + 8)).any()) for i in range(0, store.size, 8)]
        new = copy.deepcopy(store.state_dict()["frames"])
        check_versions(old, new, touched)
        old = new


def test_versions_go_on_after_restoring() -> None:
    first, second = Storage(OBS, DISCRETE, 30, 1), Storage(OBS, DISCRETE, 30, 1)
    first.add(chunk(0, 41, 1))
    state = copy.deepcopy(first.state_dict())
    second.load_state_dict(state)
    assert second.state_dict()["rows"].versions == state["rows"].versions
    for storage in (first, second):
        storage.add(chunk(41, 3, 1))
    a, b = first.state_dict()["rows"], second.state_dict()["rows"]
    assert a.versions == b.versions != state["rows"].versions
    np.testing.assert_array_equal(np.concatenate(a.chunks), np.concatenate(b.chunks))


def test_a_cut_changes_the_version_of_the_chunk_it_writes_to() -> None:
    storage = Storage(OBS, DISCRETE, 30, 1)
    storage.add(chunk(0, 8, 1))
    before = copy.deepcopy(storage.state_dict()["rows"])
    storage.cut()
    storage.add(chunk(8, 1, 1))  # goes to the next chunk
    after = storage.state_dict()["rows"]
    assert not np.array_equal(before.chunks[0], after.chunks[0]), "the newest step is now marked as truncated"
    assert after.versions[0] != before.versions[0], f"version {before.versions[0]} now stands for two contents"


def test_a_checkpoint_of_a_large_ring_is_new_only_where_it_was_written() -> None:
    storage = Storage(OBS, DISCRETE, 800, 1)
    storage.add(chunk(0, 800, 1))
    before = storage.state_dict()["rows"].versions
    storage.add(chunk(800, 20, 1))
    after = storage.state_dict()["rows"].versions
    assert [i for i, (a, b) in enumerate(zip(before, after)) if a != b] == [0, 1, 2], "20 steps lie in three chunks of 8"
