"""Conjugate gradients against a dense solve, natural steps against closed forms, and what a line search takes and refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from rl_training.models.distributions import categorical_kl, gaussian_kl
from rl_training.objectives.trust_region import conjugate_gradient, line_search, natural_step


def definite(size: int, seed: int = 0) -> Tensor:
    """A random symmetric positive definite matrix."""
    root = torch.randn(size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return root @ root.T / size + 0.1 * torch.eye(size, dtype=torch.float64)


def numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_conjugate_gradients_solve_as_a_dense_solver_does() -> None:
    matrix, b = definite(12), torch.linspace(-1, 2, 12, dtype=torch.float64)
    exact = torch.linalg.solve(matrix, b)
    torch.testing.assert_close(conjugate_gradient(matrix.mv, b, 12, tolerance=0.0), exact, rtol=1e-6, atol=1e-8)
    error = [(conjugate_gradient(matrix.mv, b, n) - exact).norm().item() for n in (1, 3, 6, 12)]
    assert error == sorted(error, reverse=True) and error[0] > 100 * error[-1], error


def test_iterations_after_convergence_change_nothing() -> None:
    matrix, b = definite(3), numbers(1.0, -2.0, 0.5)
    assert torch.equal(conjugate_gradient(matrix.mv, b, 4), conjugate_gradient(matrix.mv, b, 50))
    one = conjugate_gradient(matrix.mv, b * 1e-9, 5)  # below the tolerance from the start: one iteration is made all the same
    assert torch.equal(one, conjugate_gradient(matrix.mv, b * 1e-9, 1)) and one.norm() > 0


@pytest.mark.parametrize("matrix", [torch.zeros(2, 2), -torch.eye(2), torch.full((2, 2), torch.nan)])
def test_without_curvature_there_is_no_step(matrix: Tensor) -> None:
    assert conjugate_gradient(matrix.mv, torch.ones(2), 5).tolist() == [0.0, 0.0]
    assert natural_step(torch.ones(2), matrix.mv, 0.01, 5).tolist() == [0.0, 0.0]


def test_no_gradient_makes_no_step() -> None:
    assert natural_step(torch.zeros(3), definite(3).float().mv, 0.01, 5).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("damping", "length", "kl"), [(0.0, 0.141421, 0.0099668), (0.1, 0.129099, 0.008310)])
def test_the_step_of_a_softmax_over_two_actions(damping: float, length: float, kl: float) -> None:
    fisher = numbers(0.25, -0.25, -0.25, 0.25).view(2, 2) + damping * torch.eye(2, dtype=torch.float64)
    step = natural_step(numbers(0.5, -0.5), fisher.mv, 0.01, 10)
    assert step.tolist() == pytest.approx([length, -length], abs=1e-6)
    start = torch.zeros(1, 2, dtype=torch.float64)
    assert categorical_kl(start, start + step).item() == pytest.approx(kl, abs=1e-6)
    if not damping:
        assert (start + step).softmax(-1)[0, 0].item() == pytest.approx(0.570243, abs=1e-6)
        assert categorical_kl(start + step, start).item() == pytest.approx(0.0099009, abs=1e-6)  # the other direction


def test_the_step_of_a_gaussian_mean() -> None:
    step = natural_step(numbers(3.0), lambda v: 4.0 * v, 0.01, 10)
    assert step.item() == pytest.approx(0.0707107, abs=1e-7)
    log_std = numbers(0.5).log()
    assert gaussian_kl(numbers(0.0), log_std, step, log_std).item() == pytest.approx(0.01, abs=1e-12)


def test_every_step_reaches_the_bound_to_second_order() -> None:
    matrix = definite(6)
    for seed in range(5):
        gradient = torch.randn(6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        for steps in (1, 6):  # also where the solve is cut short
            step = natural_step(gradient, matrix.mv, 0.03, steps)
            assert (step @ matrix @ step / 2).item() == pytest.approx(0.03, rel=1e-9)
            assert (step @ gradient).item() > 0, "uphill"


def search(
    objective: Callable[[float], float], divergence: Callable[[float], float], tries: int = 10
) -> tuple[float, dict[str, Any]]:
    """From 0 by 1, 0.8, 0.64, ... within 0.5."""

    def evaluate(point: Tensor) -> tuple[Tensor, Tensor]:
        x = point.item()
        return numbers(objective(x)).squeeze(0), numbers(divergence(x)).squeeze(0)

    point, out = line_search(numbers(0.0), numbers(1.0), evaluate, 0.5, 0.8, tries)
    return point.item(), {name: value.item() for name, value in out.items()}


def test_the_full_step_is_taken_where_it_may_be() -> None:
    point, out = search(lambda x: 2 * x, lambda x: x * x / 2)
    assert point == 1.0
    assert out == {"kl": 0.5, "improvement": 2.0, "accepted": 1.0}, "on the bound is within it"


def test_the_first_point_that_is_within_the_bound_and_better_is_taken() -> None:
    point, out = search(lambda x: x * (1.2 - x), lambda x: 2 * x * x)
    assert point == pytest.approx(0.8**4), "0.8**3 is too far; the best point, 0.6, is not waited for"
    assert out["kl"] == pytest.approx(2 * 0.8**8) and out["accepted"] == 1.0
    point, out = search(lambda x: 0.5 * x - x * x, lambda x: 0.0)
    assert point == pytest.approx(0.8**4), "0.8**3 is worse than the start"
    assert out["improvement"] == pytest.approx(0.5 * 0.8**4 - 0.8**8)


@pytest.mark.parametrize(
    ("objective", "divergence"),
    [
        (lambda x: -x, lambda x: 0.0),
        (lambda x: 0.0, lambda x: 0.0),  # no worse is not better
        (lambda x: x, lambda x: 1.0),
        (lambda x: x, lambda x: float("nan")),
        (lambda x: x and float("nan"), lambda x: 0.0),
        (lambda x: -1.0 if x > 0.8**10 else x, lambda x: 0.0),  # good only where it is not looked
    ],
)
def test_where_no_point_will_do_nothing_moves(objective: Any, divergence: Any) -> None:
    assert search(objective, divergence) == (0.0, {"kl": 0.0, "improvement": 0.0, "accepted": 0.0})


def test_refusal_gives_the_start_bit_for_bit() -> None:
    start = torch.tensor([1e-42, -0.0, 3.1415927, 1e30])
    worse = torch.tensor(0.0), torch.tensor(0.0)
    for step in (torch.ones(4), torch.full((4,), torch.nan), torch.full((4,), torch.inf)):
        point, _ = line_search(start, step, lambda point: worse, 0.5, 0.8, 10)
        assert point.numpy().tobytes() == start.numpy().tobytes()


def test_as_many_points_are_looked_at_as_told() -> None:
    seen: list[float] = []
    search(lambda x: seen.append(x) or 0.0, lambda x: 0.0, tries=3)
    assert seen == pytest.approx([0.0, 1.0, 0.8, 0.64])
