"""The quantile Huber loss against values worked out by hand."""

from __future__ import annotations

import pytest
import torch

from rl_training.objectives.quantile import quantile_huber

MIDPOINTS = torch.tensor([0.25, 0.75])


@pytest.mark.parametrize(
    ("target", "expected"),
    # theta = [0, 1]; sum over predictions, mean over targets.
    [([0.5], 0.0625), ([3.0, -1.0], 1.25)],
)
def test_against_hand_computed_values(target: list[float], expected: float) -> None:
    pairs = quantile_huber(torch.tensor([0.0, 1.0]), torch.tensor(target), MIDPOINTS)
    assert pairs.shape == (2, len(target))
    assert pairs.mean(-1).sum().item() == pytest.approx(expected), pairs


def test_tau_runs_along_the_predictions() -> None:
    # One target far above both: the weight of each row is its own tau, whatever the target axis holds.
    pairs = quantile_huber(torch.zeros(2), torch.full((3,), 10.0), torch.tensor([0.1, 0.9]))
    torch.testing.assert_close(pairs, torch.tensor([[0.95] * 3, [8.55] * 3]))


def test_fits_the_quantiles_of_a_sample() -> None:
    """With a narrow kappa the minimizer over {0, 1, 2, 3} at 4 midpoints is the sample itself."""
    theta = torch.zeros(4, requires_grad=True)
    samples, tau = torch.tensor([0.0, 1.0, 2.0, 3.0]), (torch.arange(4) + 0.5) / 4
    optimizer = torch.optim.Adam([theta], 0.02)
    for _ in range(1500):
        optimizer.zero_grad()
        quantile_huber(theta, samples, tau, kappa=0.01).mean(-1).sum().backward()
        optimizer.step()
    torch.testing.assert_close(theta.detach(), samples, atol=0.05, rtol=0)


def test_batches_are_independent() -> None:
    theta, target = torch.randn(5, 3), torch.randn(5, 4)
    tau = torch.rand(5, 3)
    whole = quantile_huber(theta, target, tau)
    rows = torch.stack([quantile_huber(a, b, c) for a, b, c in zip(theta, target, tau)])
    torch.testing.assert_close(whole, rows)
