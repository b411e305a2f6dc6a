"""The sum tree: Schaul et al.'s probabilities and weights by hand, and what may never be drawn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_training.data.priority import EPSILON, PriorityTree


def tree_of(priorities: list[float], alpha: float, size: int = 0) -> PriorityTree:
    tree = PriorityTree(size or len(priorities), alpha)
    index = np.arange(len(priorities))
    tree.insert(index)
    tree.update(index, np.array(priorities) - EPSILON)
    return tree


@pytest.mark.parametrize(
    ("alpha", "beta", "probability", "weight"),
    [
        (0.5, 0.4, [0.162700, 0.230093, 0.281805, 0.325401], [1, 0.870551, 0.802742, 0.757858]),
        (0.6, 0.4, [0.148230, 0.224674, 0.286555, 0.340542], [1, 0.846745, 0.768229, 0.716978]),
        (1.0, 1.0, [0.1, 0.2, 0.3, 0.4], [1, 0.5, 1 / 3, 0.25]),
    ],
)
def test_probabilities_and_weights_by_hand(
    alpha: float, beta: float, probability: list[float], weight: list[float]
) -> None:
    index, weights = tree_of([1.0, 2.0, 3.0, 4.0], alpha).sample(10_000, beta, 4, np.random.default_rng(0))
    counts = np.bincount(index, minlength=4)
    # One draw per ten-thousandth of the mass: counts are exact up to the segments that two rows share.
    assert counts == pytest.approx(np.array(probability) * 10_000, abs=1.5)
    assert [weights[index == i].mean() for i in range(4)] == pytest.approx(weight, abs=1e-6)
    assert weights.dtype == np.float32


def test_draws_are_stratified() -> None:
    tree = tree_of([1.0] * 8, 0.6)
    for seed in range(20):
        index, _ = tree.sample(8, 1.0, 8, np.random.default_rng(seed))
        assert index.tolist() == list(range(8)), "one draw in each eighth of the mass"


def test_new_rows_get_the_largest_priority_seen() -> None:
    tree = tree_of([1.0, 9.0], 1.0, size=4)
    tree.update(np.array([1]), np.array([0.5]))
    tree.insert(np.array([2]))
    mass = tree.state_dict(4)["mass"]
    assert mass.tolist() == pytest.approx([1.0, 0.5 + EPSILON, 9.0, 0.0])


def test_errors_of_zero_keep_a_small_chance_and_signs_do_not_matter() -> None:
    tree = tree_of([1.0, 1.0], 0.5)
    tree.update(np.array([0, 1]), np.array([0.0, -4.0]))
    assert tree.state_dict(4)["mass"][:2].tolist() == pytest.approx([EPSILON**0.5, 2.0], rel=1e-6)


def test_removed_rows_stay_removed() -> None:
    tree = tree_of([1.0, 2.0, 3.0], 1.0)
    tree.remove(np.array([1]))
    tree.update(np.array([0, 1]), np.array([5.0, 100.0]))
    index, _ = tree.sample(1_000, 0.4, 3, np.random.default_rng(0))
    assert 1 not in index
    assert tree.state_dict(3)["largest"] == pytest.approx(5.0, rel=1e-5), "a removed row's error is nobody's priority"


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 40), alpha=st.sampled_from([0.3, 0.6, 1.0]), seed=st.integers(0, 2**32 - 1), rounds=st.integers(1, 30)
)
def test_only_live_rows_are_drawn_and_sums_stay_exact(size: int, alpha: float, seed: int, rounds: int) -> None:
    rng = np.random.default_rng(seed)
    tree, live = PriorityTree(size, alpha), set()
    for _ in range(rounds):
        rows = rng.permutation(size)[: rng.integers(1, size + 1)]
        match rng.integers(3):
            case 0:
                tree.insert(rows)
                live |= set(rows.tolist())
            case 1:
                tree.remove(rows)
                live -= set(rows.tolist())
            case _:
                tree.update(rows, rng.standard_normal(len(rows)) * 10.0 ** rng.integers(-12, 12))
        mass = tree.state_dict(tree.leaves)["mass"]
        assert set(np.flatnonzero(mass).tolist()) == live
        assert tree.tree[1] == pytest.approx(mass.sum(), rel=1e-12)
        if live:
            index, weight = tree.sample(16, 0.5, len(live), rng)
            assert set(index.tolist()) <= live
            assert np.isfinite(weight).all() and weight.max() == 1.0 and weight.min() > 0


def test_a_restored_tree_is_the_same_bit_for_bit() -> None:
    rng = np.random.default_rng(0)
    first, second = PriorityTree(100, 0.6), PriorityTree(100, 0.6)
    for _ in range(50):
        rows = rng.integers(0, 100, 20)
        first.insert(rows)
        first.update(rows, rng.standard_normal(20))
    state = first.state_dict(100)
    second.load_state_dict({"mass": state["mass"].copy(), "largest": state["largest"]})
    np.testing.assert_array_equal(second.tree, first.tree)
    assert second.largest == first.largest
