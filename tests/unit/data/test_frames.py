"""Images stored frame by frame: every stack is rebuilt as it was, while its frames are there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_training.data.frames import FrameStore
from rl_training.data.replay_buffer import ReplayBuffer
from rl_training.specs import ActionSpec, Leaf, ObsSpec


class Film:
    """Environments that show a new random frame at every step; an episode starts with a whole stack of them."""

    def __init__(self, envs: int, stack: int, seed: int, shortest: int = 1, longest: int = 12) -> None:
        self.rng = np.random.default_rng(seed)
        self.envs, self.stack, self.lengths = envs, stack, (shortest, longest)
        self.obs = np.stack([self._first() for _ in range(envs)])
        self.left = [self._length() for _ in range(envs)]

    def _frame(self) -> np.ndarray:
        return self.rng.integers(0, 256, (1, 2, 2)).astype(np.uint8)

    def _first(self) -> np.ndarray:
        # Either distinct frames, or the first one repeated, as frame-stacking wrappers do.
        frames = [self._frame() for _ in range(self.stack)]
        return np.concatenate(frames if self.rng.random() < 0.5 else [frames[0]] * self.stack)

    def _length(self) -> int:
        return int(self.rng.integers(self.lengths[0], self.lengths[1] + 1))

    def chunk(self, steps: int) -> dict[str, Any]:
        rows: dict[str, list[Any]] = {"obs": [], "next_obs": [], "done": []}
        for _ in range(steps):
            new = np.stack([np.concatenate([self.obs[n, 1:], self._frame()]) for n in range(self.envs)])
            rows["obs"].append(self.obs)
            rows["next_obs"].append(new)
            self.left = [left - 1 for left in self.left]
            done = np.array([left == 0 for left in self.left])
            rows["done"].append(done)
            self.obs = new.copy()
            for n in np.flatnonzero(done):
                self.obs[n], self.left[n] = self._first(), self._length()
        out = {key: np.stack(part) for key, part in rows.items()}
        cut = self.rng.random(out["done"].shape) < 0.5
        zero = np.zeros(out["done"].shape, np.float32)
        return out | {
            "terminated": out["done"] & cut, "truncated": out["done"] & ~cut, "reward": zero, "action": zero.astype(np.int64),
        }  # fmt: skip


def leaf(stack: int) -> Leaf:
    return Leaf("", (stack, 2, 2), "uint8", stack)


class Naive:
    """Whole stacks, kept per step."""

    def __init__(self, steps: int, envs: int, stack: int) -> None:
        self.kept = np.zeros((2, steps, envs, stack, 2, 2), np.uint8)

    def add(self, chunk: dict[str, Any], slots: np.ndarray) -> None:
        for t, slot in enumerate(slots):
            self.kept[0, slot], self.kept[1, slot] = chunk["obs"][t], chunk["next_obs"][t]

    def rows(self, index: np.ndarray, after: bool) -> np.ndarray:
        return self.kept[int(after)].reshape(-1, *self.kept.shape[3:])[index]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), envs=st.integers(1, 3), stack=st.integers(1, 4), steps=st.integers(2, 25),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=10),
)  # fmt: skip
def test_every_living_row_is_what_a_naive_store_kept(seed: int, envs: int, stack: int, steps: int, lengths: list[int]) -> None:
    film, store, naive = Film(envs, stack, seed), FrameStore(leaf(stack), steps, envs), Naive(steps, envs, stack)
    head = 0
    for length in lengths:
        slots = (head + np.arange(length)) % steps
        chunk = film.chunk(length)
        store.add(chunk["obs"], chunk["next_obs"], chunk["done"], slots)
        naive.add(chunk, slots)
        head += length
        index = np.arange(min(head, steps) * envs)
        living = index[store.alive(index)]
        np.testing.assert_array_equal(store.stacks(living, after=False), naive.rows(living, after=False))
        np.testing.assert_array_equal(store.stacks(living, after=True), naive.rows(living, after=True))
        newest = ((head - 1) % steps) * envs + np.arange(envs)
        assert store.alive(newest).all(), "the newest step is always whole"


@pytest.mark.parametrize("stack", [1, 2, 4])
def test_no_row_is_lost_while_episodes_last_four_stacks(stack: int) -> None:
    film, store = Film(2, stack, 0, shortest=4 * stack, longest=6 * stack), FrameStore(leaf(stack), 100, 2)
    for number in range(300):
        chunk = film.chunk(1)
        store.add(chunk["obs"], chunk["next_obs"], chunk["done"], np.array([number % 100]))
        index = np.arange(min(number + 1, 100) * 2)
        dead = index[~store.alive(index)]
        assert not len(dead), f"after {number + 1} steps rows {dead} have lost frames"


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("priority", [0.0, 0.6])
def test_a_replay_of_short_episodes_samples_whole_stacks_only(n_step: int, priority: float) -> None:
    """Episodes of 1 to 3 steps push more frames than the ring has room for: rows die early and must not be drawn."""
    obs = ObsSpec((leaf(4),))
    buffer = ReplayBuffer(obs, ActionSpec("discrete", (2,)), capacity=40, num_envs=2, n_step=n_step, priority=priority)
    film, naive = Film(2, 4, 1, longest=3), Naive(20, 2, 4)
    died = False
    for number in range(60):
        chunk = film.chunk(1)
        buffer.add(chunk)
        naive.add(chunk, np.array([number % 20]))
        batch = buffer.sample(64)
        index = batch["index"].numpy()
        np.testing.assert_array_equal(batch["obs"], naive.rows(index, after=False))
        if n_step == 1:
            np.testing.assert_array_equal(batch["next_obs"], naive.rows(index, after=True))
        died |= not buffer.storage.usable(np.arange(len(buffer.storage))).all()
    assert died, "this test must see rows die"


def test_the_row_that_a_next_step_autoreset_makes_up_does_not_leak_into_the_new_episode() -> None:
    """An environment that resets in the step after the end gives a row (last obs -> first obs of the next episode, not valid)."""
    frames = np.arange(40, dtype=np.uint8)[:, None, None] * np.ones((1, 2, 2), np.uint8)
    before = [frames[[0, 0]], frames[[0, 1]], frames[[1, 2]]]  # two steps, then the episode is over
    later = [frames[[20, 20]], frames[[20, 21]], frames[[21, 22]]]  # the next one starts with a repeated frame
    obs = np.stack([*before, *later[:2]])[:, None]
    next_obs = np.stack([*before[1:], *later])[:, None]
    terminated = np.array([False, True, False, False, False])[:, None]
    valid = np.array([True, True, False, True, True])[:, None]
    zero = np.zeros((5, 1), np.float32)
    buffer = ReplayBuffer(ObsSpec((leaf(2),)), ActionSpec("discrete", (2,)), capacity=10)
    chunk = {"obs": obs, "next_obs": next_obs, "reward": zero, "action": zero.astype(np.int64)}
    buffer.add(chunk | {"terminated": terminated, "truncated": np.zeros_like(terminated), "valid": valid})
    rows = np.array([0, 1, 3, 4])
    batch = buffer.storage.gather(rows, 1, 0.9)
    assert batch["obs"][:, :, 0, 0].tolist() == [[0, 0], [0, 1], [20, 20], [20, 21]]
    assert batch["next_obs"][:, :, 0, 0].tolist() == [[0, 1], [1, 2], [20, 21], [21, 22]]


def test_after_a_cut_a_new_stack_begins() -> None:
    frames = np.arange(40, dtype=np.uint8)[:, None, None] * np.ones((1, 2, 2), np.uint8)
    zero = np.zeros((1, 1), np.float32)
    buffer = ReplayBuffer(ObsSpec((leaf(2),)), ActionSpec("discrete", (2,)), capacity=10)
    for before, after in ((frames[[0, 1]], frames[[1, 2]]), (frames[[20, 21]], frames[[21, 22]])):
        step = {"obs": before[None, None], "next_obs": after[None, None], "reward": zero, "action": zero.astype(np.int64)}
        buffer.add(step | {"terminated": zero != 0, "truncated": zero != 0})
        buffer.cut()
    batch = buffer.storage.gather(np.arange(2), 3, 0.9)
    assert batch["obs"][:, :, 0, 0].tolist() == [[0, 1], [20, 21]]
    assert batch["next_obs"][:, :, 0, 0].tolist() == [[1, 2], [21, 22]]


def test_frames_are_stored_once() -> None:
    atari = Leaf("", (4, 84, 84), "uint8", 4)
    steps, envs = 10_000, 1
    store = FrameStore(atari, steps, envs)
    frame = 84 * 84
    assert store.frames.dtype == np.uint8
    assert store.frames.nbytes <= 1.26 * steps * frame, store.frames.nbytes / (steps * frame)
    naive = steps * 2 * 4 * frame  # obs and next_obs as stacks
    assert naive / store.frames.nbytes > 6, naive / store.frames.nbytes


def test_a_restored_store_rebuilds_and_continues() -> None:
    film, first = Film(2, 3, 0), FrameStore(leaf(3), 20, 2)
    second = FrameStore(leaf(3), 20, 2)
    for number in range(12):
        chunk = film.chunk(3)
        slots = (3 * number + np.arange(3)) % 20
        if number == 9:
            second.load_state_dict(first.state_dict())
        first.add(chunk["obs"], chunk["next_obs"], chunk["done"], slots)
        if number >= 9:
            second.add(chunk["obs"], chunk["next_obs"], chunk["done"], slots)
    index = np.arange(40)
    np.testing.assert_array_equal(first.alive(index), second.alive(index))
    living = index[first.alive(index)]
    for after in (False, True):
        np.testing.assert_array_equal(first.stacks(living, after), second.stacks(living, after))
