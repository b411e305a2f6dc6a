"""MMD in BEAR's form, by hand and sample by sample."""

from __future__ import annotations

import math

import pytest
import torch

from rl_training.objectives.mmd import mmd

LINE = ([[0.0]], [[1.0]])
PLANE = ([[0.0, 0.0], [1.0, 1.0]], [[0.5, 0.5], [2.0, -1.0]])


@pytest.mark.parametrize(
    ("sets", "kernel", "sigma", "expected"),
    [
        (LINE, "laplacian", 10.0, 0.3123173),
        (LINE, "gaussian", 20.0, 0.2222188),
        (PLANE, "laplacian", 10.0, 0.2661508),
        (PLANE, "gaussian", 20.0, 0.2287785),
    ],
)
def test_by_hand(sets: tuple[list[list[float]], list[list[float]]], kernel: str, sigma: float, expected: float) -> None:
    x, y = (torch.tensor([points] * 3) for points in sets)
    assert mmd(x, y, kernel, sigma).tolist() == pytest.approx([expected] * 3, abs=1e-5)
    assert mmd(y, x, kernel, sigma).tolist() == pytest.approx([expected] * 3, abs=1e-5)


@pytest.mark.parametrize("kernel", ["laplacian", "gaussian"])
def test_equal_sets_are_a_thousandth_apart_and_have_a_finite_gradient(kernel: str) -> None:
    x = torch.randn(2, 4, 3)
    y = x.clone().requires_grad_()
    value = mmd(x, y, kernel, 20.0)
    assert value.tolist() == pytest.approx([1e-3] * 2, abs=2e-4)  # in float32 the three means cancel to 1e-7
    assert torch.autograd.grad(value.sum(), y)[0].isfinite().all()


@pytest.mark.parametrize(("kernel", "power"), [("laplacian", 1), ("gaussian", 2)])
def test_sample_by_sample(kernel: str, power: int) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(3, 4, 2, dtype=torch.float64), torch.randn(3, 6, 2, dtype=torch.float64)

    def mean(a: torch.Tensor, b: torch.Tensor) -> float:
        apart = [sum(abs(float(p - q)) ** power for p, q in zip(i, j)) for i in a for j in b]
        return sum(math.exp(-distance / 10.0) for distance in apart) / len(apart)

    wanted = [math.sqrt(mean(a, a) + mean(b, b) - 2 * mean(a, b) + 1e-6) for a, b in zip(x, y)]
    assert mmd(x, y, kernel, 5.0).tolist() == pytest.approx(wanted, abs=1e-9)
