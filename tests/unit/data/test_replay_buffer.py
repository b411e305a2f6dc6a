"""Replay: n-step windows by hand and against a naive ring, which rows may be sampled, credit, and bit-exact restoring."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_training.data.replay_buffer import ReplayBuffer
from rl_training.specs import ActionSpec, Leaf, ObsSpec

OBS = ObsSpec((Leaf("", (1,), "float32"),))
DISCRETE = ActionSpec("discrete", (1_000_000,))


def chunk(rows: np.ndarray, **changes: Any) -> dict[str, Any]:
    """Steps whose observation, action and reward are their number `rows` (T, N), with no end."""
    no = np.zeros(rows.shape, np.bool_)
    return {
        "obs": rows[..., None].astype(np.float32), "action": rows.astype(np.int64), "reward": rows.astype(np.float32),
        "terminated": no, "truncated": no.copy(), "next_obs": rows[..., None].astype(np.float32) + 0.5,
    } | changes  # fmt: skip


def flags(shape: tuple[int, ...], *at: tuple[int, ...]) -> np.ndarray:
    out = np.zeros(shape, np.bool_)
    for where in at:
        out[where] = True
    return out


def ignore(rollout: Any) -> Any:
    return rollout


def updates(buffer: ReplayBuffer, new: int) -> int:
    return sum(1 for _ in buffer.batches(new, ignore))


# ---- n-step ----


def three_rewards(**ends: np.ndarray) -> ReplayBuffer:
    buffer = ReplayBuffer(OBS, DISCRETE, capacity=8, gamma=0.9, n_step=3)
    rewards = np.array([[1.0], [2.0], [3.0], [50.0]], np.float32)
    buffer.add(chunk(np.arange(4)[:, None], reward=rewards, **ends))
    return buffer


def target(buffer: ReplayBuffer, row: int, q: float = 10.0) -> tuple[float, float]:
    """The n-step target from a row, and the observation it bootstraps from."""
    batch = buffer.storage.gather(np.array([row]), buffer.n_step, buffer.gamma)
    return float(batch["reward"] + batch["discount"] * q), float(batch["next_obs"])


def test_n_step_targets_by_hand() -> None:
    assert target(three_rewards(), 0) == (pytest.approx(12.52), 2.5)
    terminated = flags((4, 1), (1, 0))
    assert target(three_rewards(terminated=terminated), 0) == (pytest.approx(2.8), 1.5)
    assert target(three_rewards(truncated=terminated), 0) == (pytest.approx(10.9), 1.5), "truncated: bootstrap after 2 steps"
    both = three_rewards(terminated=terminated, truncated=terminated)
    assert target(both, 0) == (pytest.approx(2.8), 1.5)


def test_a_window_stops_at_the_newest_step() -> None:
    assert target(three_rewards(), 3) == (pytest.approx(50 + 0.9 * 10), 3.5)
    assert target(three_rewards(), 2) == (pytest.approx(3 + 0.9 * 50 + 0.81 * 10), 3.5)


@pytest.mark.parametrize("priority", [0.0, 0.6])
def test_after_a_cut_nothing_continues_the_newest_steps(priority: float) -> None:
    buffer = ReplayBuffer(OBS, DISCRETE, capacity=20, num_envs=2, gamma=0.9, n_step=3, priority=priority)
    buffer.cut()  # of nothing
    first = chunk(np.array([[0, 10], [1, 11]]), terminated=flags((2, 2), (1, 1)))
    buffer.add(first)
    buffer.cut()
    buffer.add(chunk(np.array([[2, 12], [3, 13]])))
    batch = buffer.storage.gather(np.arange(4), 3, 0.9)
    assert batch["reward"].tolist() == pytest.approx([0 + 0.9 * 1, 10 + 0.9 * 11, 1, 11]), "windows end at the cut"
    assert batch["discount"].tolist() == pytest.approx([0.81, 0.0, 0.9, 0.0]), "a termination stays one"
    assert len(buffer.storage) == 8 and len(buffer.sample(50)["obs"]) == 50


class NaiveRing:
    """Lists of steps per env, and a loop for each sample."""

    def __init__(self, steps: int, envs: int) -> None:
        self.size, self.envs, self.steps = steps, envs, []

    def add(self, data: dict[str, Any]) -> None:
        for t in range(len(data["reward"])):
            self.steps.append({key: part[t] for key, part in data.items()})

    def expected(self, row: int, n_step: int, gamma: float) -> dict[str, Any]:
        slot, env = divmod(row, self.envs)
        newest = len(self.steps) - 1
        start = newest - (newest - slot) % self.size
        reward, discount = 0.0, 1.0
        for t in range(start, min(start + n_step, newest + 1)):
            step = self.steps[t]
            reward += discount * step["reward"][env]
            discount *= gamma
            if step["terminated"][env]:
                discount = 0.0
            if step["terminated"][env] or step["truncated"][env]:
                break
        return {
            "obs": self.steps[start]["obs"][env], "action": self.steps[start]["action"][env],
            "reward": reward, "discount": discount, "next_obs": step["next_obs"][env],
        }  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1), envs=st.integers(1, 3), n_step=st.integers(1, 5))
def test_every_row_is_what_a_naive_ring_gives(data: st.DataObject, seed: int, envs: int, n_step: int) -> None:
    rng = np.random.default_rng(seed)
    steps = data.draw(st.integers(2, 12))
    buffer = ReplayBuffer(OBS, DISCRETE, capacity=steps * envs, num_envs=envs, gamma=0.9, n_step=n_step)
    naive = NaiveRing(steps, envs)
    first = 0
    for length in data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=8)):
        rows = np.arange(first, first + length * envs).reshape(length, envs)
        first += length * envs
        piece = chunk(
            rows, reward=rng.standard_normal(rows.shape).astype(np.float32),
            terminated=rng.random(rows.shape) < 0.15, truncated=rng.random(rows.shape) < 0.15,
        )  # fmt: skip
        buffer.add(piece)
        naive.add(copy.deepcopy(piece))
    stored = min(steps, first // envs) * envs
    assert len(buffer.storage) == stored
    batch = buffer.storage.gather(np.arange(stored), n_step, 0.9)
    for row in range(stored):
        for key, value in naive.expected(row, n_step, 0.9).items():
            assert batch[key][row].numpy() == pytest.approx(value, abs=1e-5), f"row {row}: {key}"


@pytest.mark.parametrize(
    ("n_step", "priority", "keep_fake_rows", "value"),
    [(1, 0.0, False, 10.0), (3, 0.0, False, 10.0), (3, 0.6, False, 10.0), (1, 0.0, True, 9.09)],
)
def test_the_value_of_endless_reward_under_a_time_limit(
    n_step: int, priority: float, keep_fake_rows: bool, value: float
) -> None:
    """Reward 1 for ever, cut every 10 steps, gamma .9. Taking the limit for an end would give 5.263."""
    position = np.arange(110)[:, None] % 11
    data = chunk(position, reward=(position < 10).astype(np.float32), truncated=position == 9)
    if not keep_fake_rows:
        data["valid"] = position < 10
    buffer = ReplayBuffer(OBS, DISCRETE, capacity=110, gamma=0.9, n_step=n_step, priority=priority)
    buffer.add(data)
    v, tail = 0.0, []
    for number in range(300):
        batch = buffer.sample(110)
        v = float((batch["reward"] + batch["discount"] * v).mean())
        tail += [v] if number >= 100 else []
    assert np.mean(tail) == pytest.approx(value, abs=1e-3 if not keep_fake_rows else 0.1)


# ---- what is sampled ----


def test_batches_have_the_promised_shapes_and_types() -> None:
    obs = ObsSpec((Leaf("", (2, 3), "float32"),))
    for action, shape in (
        (ActionSpec("discrete", (4,)), ()),
        (ActionSpec("multidiscrete", (4, 2)), (2,)),
        (ActionSpec("continuous", dim=3), (3,)),
    ):
        buffer = ReplayBuffer(obs, action, capacity=20, num_envs=2, batch_size=5)
        rng = np.random.default_rng(0)
        actions = rng.integers(0, 2, (10, 2, *shape)).astype(action.dtype)
        pixels = rng.standard_normal((10, 2, 2, 3)).astype(np.float32)
        buffer.add(chunk(np.zeros((10, 2)), obs=pixels, next_obs=pixels + 1, action=actions))
        batch = buffer.sample(5)
        assert batch["obs"].shape == batch["next_obs"].shape == (5, 2, 3)
        assert batch["action"].shape == (5, *shape) and str(batch["action"].dtype) == f"torch.{action.dtype}"
        assert {k: batch[k].dtype for k in ("reward", "discount", "weight")} == dict.fromkeys(
            ("reward", "discount", "weight"), torch.float32
        )
        index = batch["index"].numpy()
        np.testing.assert_array_equal(batch["obs"], pixels.reshape(20, 2, 3)[index])
        np.testing.assert_array_equal(batch["next_obs"], pixels.reshape(20, 2, 3)[index] + 1)
        np.testing.assert_array_equal(batch["action"], actions.reshape(20, *shape)[index])


def test_dict_observations_are_put_back_together() -> None:
    spec = ObsSpec((Leaf("a", (2,), "float32"), Leaf("camera", (1, 4, 4), "uint8"), Leaf("z", (2, 2), "float32")))
    rng = np.random.default_rng(0)
    steps, envs = 30, 2
    a = rng.standard_normal((steps + 1, envs, 2)).astype(np.float32)
    z = rng.standard_normal((steps + 1, envs, 2, 2)).astype(np.float32)
    camera = rng.integers(0, 256, (steps + 1, envs, 1, 4, 4)).astype(np.uint8)
    whole = {"a": a, "camera": camera, "z": z}
    buffer = ReplayBuffer(spec, DISCRETE, capacity=60, num_envs=2, gamma=0.9, n_step=3)
    pieces = [{k: v[:-1] for k, v in whole.items()}, {k: v[1:] for k, v in whole.items()}]
    buffer.add(chunk(np.arange(60).reshape(30, 2), obs=pieces[0], next_obs=pieces[1]))
    batch = buffer.sample(200)
    t, n = np.divmod(batch["index"].numpy(), envs)
    after = np.minimum(t + 3, steps)
    for key, values in whole.items():
        assert batch["obs"][key].numpy().dtype == values.dtype
        np.testing.assert_array_equal(batch["obs"][key], values[t, n], err_msg=key)
        np.testing.assert_array_equal(batch["next_obs"][key], values[after, n], err_msg=key)


@pytest.mark.parametrize("priority", [0.0, 0.6])
def test_rows_made_up_by_an_autoreset_are_never_sampled(priority: float) -> None:
    buffer = ReplayBuffer(OBS, DISCRETE, capacity=20, num_envs=2, priority=priority)
    rows = np.arange(40).reshape(20, 2)
    valid = rows % 3 != 0
    sampled: set[int] = set()
    for start in range(0, 20, 4):  # two laps of the ring
        part = slice(start, start + 4)
        buffer.add(chunk(rows[part], valid=valid[part]))
        batch = buffer.sample(300)
        assert (batch["action"] % 3 != 0).all(), batch["action"].unique()
        buffer.feedback(batch, {"td": torch.rand(300)})
        sampled |= set(batch["action"].tolist())
    assert sampled == {row for row in range(40) if row % 3}


def test_uniform_sampling_reaches_all_rows_equally_often() -> None:
    buffer = ReplayBuffer(OBS, DISCRETE, capacity=10)
    buffer.add(chunk(np.arange(25)[:, None]))
    counts = np.bincount(buffer.sample(20_000)["action"].numpy(), minlength=25)
    assert counts[:15].sum() == 0, "overwritten"
    assert np.abs(counts[15:] - 2_000).max() < 200, counts


# ---- prioritized ----


def test_priorities_follow_errors_and_new_rows_get_the_largest() -> None:
    buffer = ReplayBuffer(OBS, DISCRETE, capacity=8, priority=1.0, beta=0.0)
    buffer.add(chunk(np.arange(4)[:, None]))
    buffer.feedback({"index": torch.arange(4)}, {"td": torch.tensor([1.0, -2.0, 0.0, 5.0])})
    buffer.add(chunk(np.arange(4, 6)[:, None]))
    counts = np.bincount(buffer.sample(18_000)["index"].numpy(), minlength=6)
    assert counts / 18_000 * 18 == pytest.approx([1, 2, 0, 5, 5, 5], abs=0.05)


def test_importance_weights_grow_to_full_correction_over_training() -> None:
    buffer = ReplayBuffer(OBS, DISCRETE, capacity=4, priority=1.0, beta=0.4, beta_updates=10)
    buffer.add(chunk(np.arange(4)[:, None]))
    buffer.feedback({"index": torch.arange(4)}, {"td": torch.tensor([1.0, 2.0, 3.0, 4.0])})
    for number in range(1, 14):
        batch = buffer.sample(400)
        beta = min(1.0, 0.4 + 0.6 * number / 10)
        wanted = (1.0 / (batch["index"].double() + 1)) ** beta
        np.testing.assert_allclose(batch["weight"], wanted, rtol=1e-5, err_msg=f"sample {number}")


# ---- credit ----


@pytest.mark.parametrize("ratio", [0.1, 0.25, 1 / 3, 0.7, 1.0, 2.5, 0.01])
def test_updates_are_exactly_the_ratio_of_steps(ratio: float) -> None:
    buffer = ReplayBuffer(OBS, DISCRETE, capacity=10, batch_size=1, ratio=ratio)
    buffer.add(chunk(np.arange(4)[:, None]))
    done = 0
    for step in range(1, 2_001):
        done += updates(buffer, 1)
        assert done == int(step * ratio + 1e-6), f"after {step} steps: {done} updates"


def test_no_update_before_the_warm_up_and_none_owed_for_it() -> None:
    buffer = ReplayBuffer(OBS, DISCRETE, capacity=100, num_envs=2, batch_size=1, ratio=1.0, warmup=10)
    counts = []
    for step in range(7):
        buffer.add(chunk(np.arange(2)[None] + 2 * step))
        counts.append(updates(buffer, 2))
    assert counts == [0, 0, 0, 0, 2, 2, 2]
    empty = ReplayBuffer(OBS, DISCRETE, capacity=10)
    assert updates(empty, 5) == 0, "an empty buffer has nothing to learn from"


# ---- state ----


def freeze(tree: Any) -> Any:
    """What a checkpoint keeps of a state: copies."""
    return copy.deepcopy(tree)


def assert_same_batches(first: ReplayBuffer, second: ReplayBuffer, new: int) -> None:
    pairs = list(zip(first.batches(new, ignore), second.batches(new, ignore), strict=True))
    for a, b in pairs:
        assert all(torch.equal(a[key], b[key]) for key in a if not isinstance(a[key], dict))
        assert all(torch.equal(a["obs"][key], b["obs"][key]) for key in a["obs"] if isinstance(a["obs"], dict))
        td = torch.rand(len(a["reward"]))
        first.feedback(a, {"td": td})
        second.feedback(b, {"td": td})
    assert len(pairs) >= 1


@pytest.mark.parametrize("priority", [0.0, 0.6])
@pytest.mark.parametrize("before", [3, 30, 87])
def test_a_restored_buffer_continues_bit_for_bit(priority: float, before: int) -> None:
    spec = ObsSpec((Leaf("camera", (2, 3, 3), "uint8", 2), Leaf("v", (1,), "float32")))
    rng = np.random.default_rng(0)

    def make() -> ReplayBuffer:
        return ReplayBuffer(
            spec, DISCRETE, capacity=60, num_envs=2, batch_size=16, ratio=0.3, n_step=2, priority=priority,
            beta_updates=20, seed=7,
        )  # fmt: skip

    def piece(first: int, length: int) -> dict[str, Any]:
        rows = np.arange(first, first + 2 * length).reshape(length, 2)
        image = rng.integers(0, 256, (length, 2, 2, 3, 3)).astype(np.uint8)
        obs = {"camera": image, "v": rows[..., None].astype(np.float32)}
        return chunk(rows, obs=obs, next_obs=obs, terminated=rng.random(rows.shape) < 0.1)

    first = make()
    for number in range(before):
        first.add(piece(2 * number, 1))
        list(first.batches(2, ignore))
    second = make()
    second.load_state_dict(freeze(first.state_dict()))
    assert (second.credit, len(second.storage)) == (first.credit, len(first.storage))
    for number in range(40):
        new = piece(1_000 + 6 * number, 3)
        first.add(new)
        second.add(new)
        assert_same_batches(first, second, 6)


def test_a_buffer_that_is_still_empty_can_be_restored() -> None:
    first, second = (ReplayBuffer(OBS, DISCRETE, capacity=10, ratio=1.0, batch_size=4) for _ in range(2))
    second.load_state_dict(freeze(first.state_dict()))
    for buffer in (first, second):
        buffer.add(chunk(np.arange(5)[:, None]))
    assert_same_batches(first, second, 5)
