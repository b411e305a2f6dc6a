"""Running statistics: equal to those of all rows at once, clipped, fitted once, and saved."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_training.models.normalize import Normalizer


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31), sizes=st.lists(st.integers(1, 50), min_size=1, max_size=8), offset=st.floats(-1e3, 1e3))
def test_merged_statistics_are_those_of_all_rows(seed: int, sizes: list[int], offset: float) -> None:
    rows = torch.randn(sum(sizes) + 100, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    rows = (rows * torch.tensor([0.1, 1.0, 30.0]) + offset).float()
    normalizer = Normalizer((3,))
    for part in rows.split([100, *sizes]):
        normalizer.observe(part)
    exact = rows.double()
    # It starts as if a ten-thousandth of a row of mean 0 and variance 1 had been seen.
    assert normalizer.count.item() == pytest.approx(len(rows) + 1e-4)
    torch.testing.assert_close(normalizer.mean, exact.mean(0), rtol=1e-5, atol=1e-5)
    prior = 1e-4 / len(rows) * (1 + exact.mean(0) ** 2)
    torch.testing.assert_close(normalizer.var, exact.var(0, correction=0) + prior, rtol=1e-4, atol=1e-9)


def test_any_leading_shape_is_a_batch_of_rows() -> None:
    rows = torch.randn(6, 4, 2, 3)
    flat, deep = Normalizer((2, 3)), Normalizer((2, 3))
    flat.observe(rows.reshape(-1, 2, 3))
    deep.observe(rows)
    assert torch.equal(flat.mean, deep.mean) and torch.equal(flat.var, deep.var)
    assert deep.count.item() == pytest.approx(24, abs=1e-3)


def test_rows_are_centred_scaled_and_clipped() -> None:
    normalizer = Normalizer((2,))
    normalizer.observe(torch.tensor([[0.0, 5.0], [2.0, 5.0], [4.0, 5.0]]).repeat(1000, 1))
    got = normalizer(torch.tensor([[2.0, 5.0], [4.0, 5.0], [1e6, 5.0], [-1e6, 5.0]]))
    assert got.dtype == torch.float32
    assert got[:, 0].tolist() == pytest.approx([0.0, 2 / (8 / 3) ** 0.5, 10.0, -10.0], abs=1e-3)
    assert torch.isfinite(got).all(), "a constant feature must not divide by zero"


def test_before_any_observation_it_changes_nothing() -> None:
    rows = torch.randn(5, 3)
    torch.testing.assert_close(Normalizer((3,))(rows), rows, atol=1e-6, rtol=1e-6)


def test_only_observe_and_fit_change_statistics() -> None:
    normalizer = Normalizer((3,))
    normalizer.observe(torch.randn(50, 3))
    before = {key: value.clone() for key, value in normalizer.state_dict().items()}
    for mode in (True, False):
        normalizer.train(mode)
        normalizer(torch.randn(100, 3) + 9)
    assert all(torch.equal(value, before[key]) for key, value in normalizer.state_dict().items())


def test_fitted_statistics_are_of_the_data_and_stay() -> None:
    rows = torch.randn(1000, 3) * torch.tensor([0.5, 1.0, 4.0]) + 3
    normalizer = Normalizer((3,))
    normalizer.fit(rows.split(3), eps=1e-3)
    deviation = rows.double().std(0, correction=0) + 1e-3
    got = normalizer(rows)
    torch.testing.assert_close(got, ((rows.double() - rows.double().mean(0)) / deviation).float(), atol=1e-5, rtol=1e-5)
    before = normalizer.mean.clone()
    normalizer.observe(rows + 100)
    assert torch.equal(normalizer.mean, before), "data statistics do not drift while fine-tuning"


def test_statistics_travel_in_the_state() -> None:
    first, second = Normalizer((3,)), Normalizer((3,))
    first.observe(torch.randn(40, 3) * 7)
    second.load_state_dict(first.state_dict())
    more = torch.randn(10, 3)
    for normalizer in (first, second):
        normalizer.observe(more)
    assert all(torch.equal(value, second.state_dict()[key]) for key, value in first.state_dict().items())


def test_statistics_are_no_parameters() -> None:
    assert list(Normalizer((3,)).parameters()) == []
