"""Expectiles by hand."""

from __future__ import annotations

import pytest
import torch

from rl_training.objectives.expectile import expectile_loss


def test_errors_above_weigh_the_expectile_and_errors_below_the_rest() -> None:
    loss = expectile_loss(torch.tensor([-1.0, 2.0]), 0.7)
    assert loss.tolist() == pytest.approx([0.3, 2.8])


@pytest.mark.parametrize(("values", "expectile", "expected"), [([0.0, 1.0], 0.7, 0.7), ([0.0, 1.0, 10.0], 0.9, 8.272727)])
def test_its_minimum_is_the_expectile(values: list[float], expectile: float, expected: float) -> None:
    data, point = torch.tensor(values, dtype=torch.float64), torch.tensor(5.0, dtype=torch.float64, requires_grad=True)
    for _ in range(4000):
        (gradient,) = torch.autograd.grad(expectile_loss(data - point, expectile).mean(), point)
        point = (point - 0.1 * gradient).detach().requires_grad_()
    assert float(point.detach()) == pytest.approx(expected, abs=1e-6)
