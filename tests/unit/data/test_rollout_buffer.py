"""Rollouts: returns by hand, what batches cover, early stopping, reward scaling and state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rl_training.data.batch import Batch
from rl_training.data.rollout_buffer import RolloutBuffer


def chunk(steps: int, envs: int, **changes: Any) -> dict[str, Any]:
    """Rows whose observation is their number."""
    rows = np.arange(steps * envs, dtype=np.float32).reshape(steps, envs, 1)
    no = np.zeros((steps, envs), np.bool_)
    return {
        "obs": rows, "action": rows[..., 0].astype(np.int64), "outputs": np.zeros((steps, envs, 2), np.float32),
        "reward": np.ones((steps, envs), np.float32),
        "terminated": no, "truncated": no.copy(), "next_obs": rows + envs,
    } | changes  # fmt: skip


def values(v: float = 0.0, seen: list[Batch] | None = None) -> Any:
    """A `prepare` that values every observation the same."""

    def prepare(rollout: Batch) -> Batch:
        if seen is not None:
            seen.append(rollout)
        flat = torch.full(rollout["reward"].shape, v)
        return {"value": flat, "next_value": flat.clone(), "log_prob": torch.zeros_like(flat)}

    return prepare


def table(**flags: int) -> RolloutBuffer:
    buffer = RolloutBuffer(3, 1, (1,))
    data = chunk(3, 1, reward=np.array([[1.0], [2.0], [3.0]], np.float32))
    for name, t in flags.items():
        data[name] = data[name].copy()
        data[name][t] = True
    buffer.add(data)
    buffer.data["value"] = np.array([[0.5], [1.0], [1.5]], np.float32)
    return buffer


def test_returns_and_advantages_from_the_value_after_the_rollout() -> None:
    returns, advantage = table().compute_returns_and_advantages(np.array([2.0], np.float32), 0.9, 0.8)
    assert advantage[:, 0].tolist() == pytest.approx([4.80272, 4.726, 3.3], abs=1e-6)
    assert returns[:, 0].tolist() == pytest.approx([5.30272, 5.726, 4.8], abs=1e-6)
    _, advantage = table(terminated=1).compute_returns_and_advantages(np.array([2.0], np.float32), 0.9, 0.8)
    assert advantage[:, 0].tolist() == pytest.approx([2.12, 1.0, 3.3], abs=1e-6)


def test_a_truncated_step_bootstraps_from_its_own_next_value() -> None:
    buffer = table(truncated=1)
    buffer.data["next_value"] = np.array([[99.0], [4.0], [99.0]], np.float32)
    _, advantage = buffer.compute_returns_and_advantages(np.array([2.0], np.float32), 0.9, 0.8)
    assert advantage[:, 0].tolist() == pytest.approx([4.712, 4.6, 3.3], abs=1e-6)


def test_a_rollout_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rollout is \(3, 2\), this buffer holds \(4, 2\)"):
        RolloutBuffer(4, 2).add(chunk(3, 2))


def test_every_epoch_covers_every_row_once_in_a_new_order() -> None:
    seen: list[Batch] = []
    buffer = RolloutBuffer(8, 3, epochs=3, minibatches=4)
    buffer.add(chunk(8, 3))
    batches = list(buffer.batches(24, values(seen=seen)))
    assert [len(b["obs"]) for b in batches] == [6] * 12
    orders = [torch.cat([b["action"] for b in batches[i : i + 4]]).tolist() for i in (0, 4, 8)]
    assert all(sorted(order) == list(range(24)) for order in orders), orders
    assert orders[0] != orders[1] != orders[2] != orders[0]
    assert len(seen) == 1, "a rollout is prepared once, not per epoch"
    assert set(seen[0]) == {"obs", "action", "outputs", "reward", "terminated", "truncated", "next_obs"}
    assert buffer.updates_per_step == 12 / 24
    for batch in batches:
        assert set(batch) == {"obs", "action", "log_prob", "value", "advantage", "return"}
        assert batch["obs"].squeeze(-1).tolist() == batch["action"].tolist(), "rows must stay together"


def test_the_whole_rollout_may_come_before_its_minibatches() -> None:
    valid = np.ones((6, 2), np.bool_)
    valid[2, 0] = valid[4, 1] = False
    buffer = RolloutBuffer(6, 2, epochs=2, minibatches=5, whole_first=True)
    assert buffer.updates_per_step == 11 / 12
    buffer.add(chunk(6, 2, valid=valid))
    whole, *rest = buffer.batches(10, values())
    assert whole["action"].tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 10, 11], "made-up rows are left out"
    assert whole["obs"].squeeze(-1).tolist() == whole["action"].tolist() and set(whole) == set(rest[0])
    assert [len(b["obs"]) for b in rest] == [2] * 10


def test_rows_made_up_by_an_autoreset_are_never_learned_from() -> None:
    valid = np.ones((6, 2), np.bool_)
    valid[2, 0] = valid[4, 1] = False
    buffer = RolloutBuffer(6, 2, epochs=2, minibatches=2)
    buffer.add(chunk(6, 2, valid=valid))
    batches = list(buffer.batches(10, values()))
    assert [len(b["obs"]) for b in batches] == [5] * 4
    for half in (batches[:2], batches[2:]):
        got = sorted(torch.cat([b["action"] for b in half]).tolist())
        assert got == [0, 1, 2, 3, 5, 6, 7, 8, 10, 11], got


@pytest.mark.parametrize(("keep_fake_rows", "value"), [(False, 10.0), (True, 9.09)])
def test_the_value_of_endless_reward_under_a_time_limit(keep_fake_rows: bool, value: float) -> None:
    """Reward 1 for ever, cut every 10 steps, gamma .9; with next-step autoreset every 11th row is made up and has reward 0."""
    position = np.arange(33)[:, None] % 11
    data = chunk(33, 1, reward=(position < 10).astype(np.float32), truncated=position == 9)
    if not keep_fake_rows:
        data["valid"] = position < 10
    buffer = RolloutBuffer(33, 1, gamma=0.9, gae_lambda=0.0)
    buffer.add(data)
    v = 0.0
    for _ in range(150):
        (batch,) = buffer.batches(33, values(v))
        v = float(batch["return"].mean())
    assert v == pytest.approx(value, abs=5e-3)


def test_updates_stop_once_the_policy_has_moved_too_far() -> None:
    buffer = RolloutBuffer(8, 1, epochs=4, minibatches=2, target_kl=0.01)
    for _ in range(2):  # the stop holds for one rollout only
        buffer.add(chunk(8, 1))
        kl = iter([0.001, 0.0149, 0.0151, 0.0])
        count = 0
        for batch in buffer.batches(8, values()):
            buffer.feedback(batch, {"approx_kl": torch.tensor(next(kl))})
            count += 1
        assert count == 3, count


def test_dict_observations_stay_together() -> None:
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    obs = {"a": rows[..., None], "b": np.stack([rows * 10, rows * 100], -1)}
    buffer = RolloutBuffer(4, 2, minibatches=2)
    buffer.add(chunk(4, 2, obs=obs, next_obs=obs))
    for batch in buffer.batches(8, values()):
        action = batch["action"].tolist()
        assert batch["obs"]["a"].squeeze(-1).tolist() == action
        assert batch["obs"]["b"].tolist() == [[10.0 * a, 100.0 * a] for a in action]


def test_rewards_are_scaled_by_the_deviation_of_the_running_return() -> None:
    rng = np.random.default_rng(0)
    buffer = RolloutBuffer(50, 2, gamma=0.9, scale_rewards=True)
    returns: list[float] = []
    running = np.zeros(2)
    for _ in range(3):
        reward = (3.0 + 5.0 * rng.standard_normal((50, 2))).astype(np.float32)
        ends = rng.random((50, 2)) < 0.1
        buffer.add(chunk(50, 2, reward=reward, terminated=ends))
        for t in range(50):
            running = 0.9 * running + reward[t]
            returns += running.tolist()
            running[ends[t]] = 0.0
        wanted = (reward / np.sqrt(np.var(returns) + 1e-8)).clip(-10, 10)
        np.testing.assert_allclose(buffer.data["reward"], wanted, rtol=2e-4)
    assert wanted.mean() > 0.1, "no mean is subtracted"


def test_scaled_rewards_are_clipped_and_the_chunk_is_left_alone() -> None:
    reward = np.zeros((200, 1), np.float32)
    reward[-1] = 1_000.0
    buffer = RolloutBuffer(200, 1, scale_rewards=True)
    data = chunk(200, 1, reward=reward)
    buffer.add(data)
    assert buffer.data["reward"].max() == 10.0
    assert data["reward"].max() == 1_000.0


def test_a_restored_buffer_continues_with_the_same_shuffles_and_scales() -> None:
    def make() -> RolloutBuffer:
        return RolloutBuffer(8, 2, epochs=2, minibatches=2, scale_rewards=True, seed=5)

    rng = np.random.default_rng(1)
    rewards = rng.standard_normal((4, 8, 2)).astype(np.float32)
    first, second = make(), make()
    for reward in rewards[:2]:
        first.add(chunk(8, 2, reward=reward))
        list(first.batches(16, values()))
    second.load_state_dict(first.state_dict())
    for reward in rewards[2:]:
        for buffer in (first, second):
            buffer.add(chunk(8, 2, reward=reward))
        for a, b in zip(first.batches(16, values()), second.batches(16, values()), strict=True):
            assert all(torch.equal(a[key], b[key]) for key in a)
