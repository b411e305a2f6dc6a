"""What batches hold of the steps around a transition, by hand: at the ends of episodes, where a ring wraps, and after loading."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from rl_training.data.extras import MC_RETURN, NEXT_ACTION
from rl_training.data.resident import ResidentRows
from rl_training.data.storage import Storage
from rl_training.specs import ActionSpec, Leaf, ObsSpec

OBS, ACTION = ObsSpec((Leaf("", (1,), "float32"),)), ActionSpec("continuous", dim=1)
BOTH = frozenset({NEXT_ACTION, MC_RETURN})
CPU, INF = torch.device("cpu"), float("inf")


def storage(capacity: int = 20, envs: int = 1, gamma: float = 0.99, names: frozenset[str] = BOTH) -> Storage:
    return Storage(OBS, ACTION, capacity, envs, names, gamma)


def steps(
    reward: Any, terminated: Sequence[tuple[int, int]] = (), truncated: Sequence[tuple[int, int]] = (), first: int = 0
) -> Any:
    """Rows of (T, N) rewards, whose action is 100 * env + step; ends are pairs of row and env."""
    reward = np.array(reward, np.float32)
    reward = reward[:, None] if reward.ndim == 1 else reward
    action = (first + np.arange(len(reward)))[:, None] + 100.0 * np.arange(reward.shape[1])
    flags = np.zeros((2, *reward.shape), np.bool_)
    for flag, places in zip(flags, (terminated, truncated)):
        for place in places:
            flag[place] = True
    vector = action[..., None].astype(np.float32)
    return {
        "obs": vector, "action": vector, "next_obs": vector + 1, "reward": reward, "terminated": flags[0], "truncated": flags[1]
    }  # fmt: skip


def column(store: Storage, name: str, n_step: int = 1) -> list[float]:
    return store.gather(np.arange(len(store)), n_step, 0.99)[name].flatten().tolist()


def test_the_next_action_is_known_within_an_episode_alone() -> None:
    """Rows 0-2 end with a termination, 3-4 with a time limit, 5-6 are going on: the newest has no successor yet."""
    store = storage()
    store.add(steps([0.0] * 7, terminated=[(2, 0)], truncated=[(4, 0)]))
    known = column(store, "next_action_known")
    assert known == [1, 1, 0, 1, 0, 1, 0]
    action = column(store, "next_action")
    assert [a for a, k in zip(action, known) if k] == [1, 2, 4, 6]
    store.add(steps([0.0], first=7))
    assert column(store, "next_action_known")[6:] == [1, 0] and column(store, "next_action")[6] == 7


def test_after_several_steps_it_is_the_action_after_the_last() -> None:
    store = storage()
    store.add(steps([0.0] * 6, terminated=[(3, 0)]))
    assert column(store, "next_action_known", n_step=2) == [1, 1, 0, 0, 0, 0]
    assert column(store, "next_action", n_step=2)[:2] == [2, 3]


def test_a_row_that_is_no_step_is_no_successor() -> None:
    store = storage()
    store.add(steps([0.0] * 3) | {"valid": np.array([[True], [False], [True]])})
    assert column(store, "next_action_known") == [0, 1, 0]


@pytest.mark.parametrize(
    ("reward", "terminated", "expected"),
    [
        ([-5.0, -5.0, 5.0], True, [-5.0495, -0.05, 5.0]),
        ([-5.0, -5.0, -5.0], False, [-500.0] * 3),  # all failures, cut: it fails for ever
        ([-5.0, -5.0, -5.0], True, [-14.8505, -9.95, -5.0]),
        ([1.0, 2.0, 3.0], False, [1 + 0.99 * (2 + 0.99 * (3 + 0.99 * 200)), 2 + 0.99 * (3 + 0.99 * 200), 3 + 0.99 * 200]),
    ],
)
def test_returns_by_hand(reward: list[float], terminated: bool, expected: list[float]) -> None:
    store = storage()
    end = {"terminated": [(2, 0)]} if terminated else {"truncated": [(2, 0)]}
    store.add(steps(reward, **end))  # type: ignore[arg-type]
    assert column(store, "mc_return") == pytest.approx(expected, rel=1e-5)


def test_an_undiscounted_cut_episode_returns_what_it_did() -> None:
    store = storage(gamma=1.0)
    store.add(steps([1.0, 2.0, 3.0], truncated=[(2, 0)]))
    assert column(store, "mc_return") == [6.0, 5.0, 3.0]


def test_the_return_is_unknown_until_the_episode_ends() -> None:
    store = storage()
    for step, reward in enumerate([-5.0, -5.0]):
        store.add(steps([reward], first=step))
    assert column(store, "mc_return") == [-INF, -INF]
    store.add(steps([5.0], terminated=[(0, 0)], first=2))
    assert column(store, "mc_return") == pytest.approx([-5.0495, -0.05, 5.0])
    store.add(steps([1.0], first=3))
    assert column(store, "mc_return") == pytest.approx([-5.0495, -0.05, 5.0, -INF])


def test_each_episode_has_its_own_return() -> None:
    store = storage(gamma=0.5)
    store.add(steps([1.0, 1.0, 4.0, 8.0, 2.0], terminated=[(1, 0), (3, 0)]))
    assert column(store, "mc_return") == [1.5, 1.0, 8.0, 8.0, -INF]


def test_a_cut_ends_the_newest_episodes() -> None:
    store = storage(envs=2, gamma=0.5)
    store.add(steps([[1.0, 3.0], [1.0, 3.0]], terminated=[(1, 1)]))
    store.cut()
    # Env 0 goes on with its mean of 1 for ever, env 1 has ended.
    assert column(store, "mc_return") == [2.0, 4.5, 2.0, 3.0]
    assert column(store, "next_action_known") == [1, 1, 0, 0]


def test_a_ring_of_two_envs_that_wraps() -> None:
    """Four steps are kept. What an episode that has ended returned is known of its last steps too; of one that was cut, and whose
    first steps are gone, it is not.
    """
    store = storage(capacity=8, envs=2, gamma=0.5)
    rewards = [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [4.0, 2.0], [8.0, 2.0], [8.0, 6.0]]
    for step, reward in enumerate(rewards):
        ends = {"terminated": [(0, 0)]} if step == 3 else {"truncated": [(0, 1)]} if step == 5 else {}
        store.add(steps([reward], first=step, **ends))  # type: ignore[arg-type]
    # In the ring: steps 4, 5, 2, 3. Env 0 ended with step 3; steps 4 and 5 go on. Env 1 was cut at 5.
    by_step = dict(zip([4, 5, 2, 3], np.array(column(store, "mc_return")).reshape(4, 2).tolist()))
    assert {step: values[0] for step, values in by_step.items()} == {2: 3.0, 3: 4.0, 4: -INF, 5: -INF}
    assert {step: values[1] for step, values in by_step.items()} == dict.fromkeys(range(2, 6), -INF)
    known = dict(zip([4, 5, 2, 3], np.array(column(store, "next_action_known")).reshape(4, 2).tolist()))
    assert known == {2: [1, 1], 3: [0, 1], 4: [1, 1], 5: [0, 0]}
    action = dict(zip([4, 5, 2, 3], np.array(column(store, "next_action")).reshape(4, 2).tolist()))
    assert action[4] == [5, 105] and action[2] == [3, 103] and action[3][1] == 104, "after the end of the ring comes its start"


def test_a_cut_episode_is_known_until_its_first_step_is_overwritten() -> None:
    store = storage(capacity=4, gamma=0.5)
    store.add(steps([1.0, 1.0, 1.0, 1.0], truncated=[(1, 0), (3, 0)]))
    assert column(store, "mc_return") == [2.0] * 4, "a ring that is full and no more holds whole episodes"
    store.add(steps([5.0], first=4))
    assert column(store, "mc_return") == [-INF, -INF, 2.0, 2.0]
    store.add(steps([5.0], first=5))
    assert column(store, "mc_return") == [-INF] * 4, "nothing tells that row 2 was a first one"


def test_a_loaded_storage_has_them_too() -> None:
    first, second = (storage(capacity=8, envs=2, gamma=0.5) for _ in range(2))
    rng = np.random.default_rng(0)
    for step in range(11):
        ends = {"terminated": [(0, 0)] if step % 4 == 3 else [], "truncated": [(0, 1)] if step % 3 == 2 else []}
        first.add(steps(rng.standard_normal((1, 2)), first=step, **ends))
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for _ in range(2):
        for name in ("mc_return", "next_action", "next_action_known"):
            assert column(first, name) == pytest.approx(column(second, name)), name
        for store in (first, second):
            store.add(steps([[1.0, 1.0]], terminated=[(0, 0)], first=11))


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("names", [{NEXT_ACTION}, {MC_RETURN}, BOTH], ids=lambda names: "+".join(sorted(names)))
def test_rows_on_a_device_have_the_same(names: set[str], n_step: int) -> None:
    store = storage(capacity=30, gamma=0.9, names=frozenset(names))
    rng = np.random.default_rng(1)
    for length in (17, 30 - 17, 8):  # the last wraps
        flags = rng.random((2, length)) < 0.2
        ends = {"terminated": [(int(t), 0) for t in np.flatnonzero(flags[0])]}
        ends["truncated"] = [(int(t), 0) for t in np.flatnonzero(flags[1] & ~flags[0])]
        store.add(steps(rng.standard_normal(length), **ends))
        store.cut()
        here = ResidentRows(store, CPU, 4, n_step, 0.9)
        index = np.arange(len(store))
        host, there = store.gather(index, n_step, 0.9), here.gather(torch.from_numpy(index))
        assert host.keys() == there.keys() and len(host) == 5 + 2 * (NEXT_ACTION in names) + (MC_RETURN in names)
        for key in host:
            assert host[key].dtype == there[key].dtype
            torch.testing.assert_close(there[key], host[key], rtol=0, atol=1e-6)
