"""The forms in which compiled programs write matrix products: equal to the plain ones, and chosen by shape."""

from __future__ import annotations

import pytest
import torch

from rl_training.runtime.products import decompositions

aten = torch.ops.aten


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize(
    ("rows", "inner", "columns"), [(256, 64, 1), (256, 64, 2), (2, 256, 64), (1, 64, 64), (256, 1, 64), (3, 2, 3)]
)
def test_a_product_with_a_thin_side_is_multiplications_and_sums(rows: int, inner: int, columns: int) -> None:
    table = decompositions()
    for lead, op in (((), aten.mm.default), ((3,), aten.bmm.default)):
        a, b = drawn(*lead, rows, inner), drawn(*lead, inner, columns)
        assert torch.allclose(table[op](a, b), a @ b, atol=1e-5)


@pytest.mark.parametrize("columns", [3, 12, 31])
def test_a_narrow_product_is_computed_on_its_side(columns: int) -> None:
    a, b = drawn(64, 128), drawn(128, columns)
    result = decompositions()[aten.mm.default](a, b)
    assert torch.allclose(result, a @ b, atol=1e-5)
    assert result.stride() == (1, 64), "its transpose was computed, and turned"


def test_other_products_are_left_to_the_library() -> None:
    table = decompositions()
    assert table[aten.mm.default](drawn(64, 64), drawn(64, 32)) is NotImplemented
    assert table[aten.mm.default](drawn(8, 64), drawn(64, 12)) is NotImplemented, "flat already"
    assert table[aten.bmm.default](drawn(2, 64, 64), drawn(2, 64, 12)) is NotImplemented
    assert table[aten.addmm.default](drawn(5), drawn(4, 3), drawn(3, 5), beta=0.5) is NotImplemented


def test_biases_are_added_afterwards() -> None:
    table = decompositions()
    bias, a, b = drawn(5), drawn(4, 3), drawn(3, 5)
    assert torch.allclose(table[aten.addmm.default](bias, a, b), bias + a @ b, atol=1e-6)
    biases, many, weights = drawn(2, 1, 5), drawn(2, 4, 3), drawn(2, 3, 5)
    assert torch.allclose(table[aten.baddbmm.default](biases, many, weights), biases + many @ weights, atol=1e-6)
