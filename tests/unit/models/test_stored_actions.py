"""Densities of stored actions under a tanh-Gaussian."""

from __future__ import annotations

import math

import pytest
import torch

from rl_training.models.distributions import sample_squashed, squashed_log_prob


def test_a_density_by_hand() -> None:
    """N(atanh 0.5; 0, 1) / (1 - 0.25)."""
    u = math.atanh(0.5)
    expected = -0.5 * u**2 - 0.5 * math.log(2 * math.pi) - math.log(0.75)
    assert expected == pytest.approx(-0.782125, abs=1e-6)
    found = squashed_log_prob(torch.zeros(1, 1), torch.zeros(1, 1), torch.full((1, 1), 0.5))
    assert float(found) == pytest.approx(expected, abs=1e-5)


def test_it_is_the_density_that_samples_are_given() -> None:
    torch.manual_seed(0)
    mean, log_std = torch.randn(32, 3), torch.randn(32, 3).clamp(-1, 0)
    action, log_prob = sample_squashed(mean, log_std)
    assert torch.allclose(squashed_log_prob(mean, log_std, action), log_prob, atol=2e-3)


def test_actions_at_the_bounds_have_a_finite_density_and_gradient() -> None:
    mean = torch.zeros(2, 1, requires_grad=True)
    log_prob = squashed_log_prob(mean, torch.zeros(2, 1), torch.tensor([[1.0], [-1.0]]))
    (gradient,) = torch.autograd.grad(log_prob.sum(), mean)
    assert log_prob.isfinite().all() and gradient.isfinite().all()
    assert gradient[0] > 0 > gradient[1]
