"""Advantages by hand: the two kinds of end, the cut at the end of a rollout, and independence of environments."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_training.data.gae import gae

REWARD, VALUE, LAST_VALUE = [1.0, 2.0, 3.0], [0.5, 1.0, 1.5], 2.0


def column(values: list[float] | list[bool], kind: type = np.float32) -> np.ndarray:
    return np.array(values, kind)[:, None]


def advantages(
    lam: float, terminated: tuple[int, ...] = (), truncated: tuple[int, ...] = (), final: dict[int, float] | None = None
) -> list[float]:
    """The three steps of the table, gamma .9; `final` are values of true last observations."""
    next_value = [*VALUE[1:], LAST_VALUE]
    for t, value in (final or {}).items():
        next_value[t] = value
    ends = [[t in which for t in range(3)] for which in (terminated, truncated)]
    got = gae(
        column(REWARD), column(VALUE), column(next_value), column(ends[0], np.bool_), column(ends[1], np.bool_), 0.9, lam
    )
    assert got.dtype == np.float32 and got.shape == (3, 1)
    return got[:, 0].tolist()


def test_no_end() -> None:
    assert advantages(0.8) == pytest.approx([4.80272, 4.726, 3.3], abs=1e-6)
    assert (np.array(advantages(0.8)) + VALUE).tolist() == pytest.approx([5.30272, 5.726, 4.8], abs=1e-6)
    assert advantages(1.0) == pytest.approx([6.188, 5.32, 3.3], abs=1e-6)
    assert advantages(0.0) == pytest.approx([1.4, 2.35, 3.3], abs=1e-6)


def test_termination_cuts_value_and_sum() -> None:
    assert advantages(0.8, terminated=(1,)) == pytest.approx([2.12, 1.0, 3.3], abs=1e-6)


def test_truncation_bootstraps_from_the_last_observation_and_cuts_the_sum() -> None:
    got = advantages(0.8, truncated=(1,), final={1: 4.0})
    assert got == pytest.approx([4.712, 4.6, 3.3], abs=1e-6), "[6.42272, 6.976, 3.3] leaks into the next episode"


def test_both_ends_at_once_are_a_termination() -> None:
    assert advantages(0.8, (1,), (1,), {1: 4.0}) == pytest.approx([2.12, 1.0, 3.3], abs=1e-6)


def test_ends_in_the_last_step() -> None:
    assert advantages(0.8, terminated=(2,))[2] == pytest.approx(1.5)
    assert advantages(0.8, truncated=(2,), final={2: 4.0})[2] == pytest.approx(3.0 + 0.9 * 4.0 - 1.5)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.integers(1, 4))
def test_it_is_the_sum_of_discounted_errors_up_to_the_end_of_each_episode(seed: int, steps: int, envs: int) -> None:
    rng = np.random.default_rng(seed)
    reward, value, next_value = rng.standard_normal((3, steps, envs)).astype(np.float32)
    terminated, truncated = rng.random((2, steps, envs)) < 0.2
    got = gae(reward, value, next_value, terminated, truncated, 0.9, 0.8)
    error = reward.astype(np.float64) + 0.9 * np.where(terminated, 0.0, next_value) - value
    for n in range(envs):
        for t in range(steps):
            wanted, scale, k = 0.0, 1.0, t
            while k < steps:
                wanted, scale = wanted + scale * error[k, n], scale * 0.9 * 0.8
                if terminated[k, n] or truncated[k, n]:
                    break
                k += 1
            assert got[t, n] == pytest.approx(wanted, abs=1e-5), (t, n)


@pytest.mark.parametrize(("bootstrap", "value"), [(True, 10.0), (False, 4.138)])
def test_the_value_of_endless_reward_under_a_time_limit(bootstrap: bool, value: float) -> None:
    """Reward 1 for ever, cut every 10 steps, gamma .9. Taking the limit for an end would give 4.138."""
    ends = np.arange(1, 31)[:, None] % 10 == 0
    never = np.zeros_like(ends)
    v = 0.0
    for _ in range(100):
        values = np.full(ends.shape, v, np.float32)
        terminated, truncated = (never, ends) if bootstrap else (ends, never)
        v = float((gae(np.ones_like(values), values, values, terminated, truncated, 0.9, 1.0) + values).mean())
    assert v == pytest.approx(value, abs=1e-3)
