"""Log-densities and entropies against numbers worked out by hand and against torch.distributions."""

from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import Categorical, Independent, Normal, kl_divergence

from rl_training.models import distributions as dist


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def squashed(mean: float, std: float, u: float, dtype: torch.dtype = torch.float32) -> float:
    """Log-density of tanh(u) for u ~ N(mean, std)."""
    m, s, x = (torch.tensor([[v]], dtype=dtype) for v in (mean, std, u))
    return dist.squash_log_prob(x, dist.gaussian_log_prob(m, s.log(), x)).item()


@pytest.mark.parametrize(
    ("mean", "std", "u", "log_prob"), [(0.0, 1.0, 0.5, -0.803710), (0.3, 0.5, -0.2, -0.686055), (0.0, 1.0, 10.0, -32.30523)]
)
def test_tanh_gaussian_by_hand(mean: float, std: float, u: float, log_prob: float) -> None:
    # The naive log(1 - tanh(u)^2 + 1e-6) gives -37.1116 for the last.
    assert squashed(mean, std, u) == pytest.approx(log_prob, abs=1e-5)


def test_tanh_gaussian_of_a_given_action() -> None:
    assert squashed(0.0, 1.0, math.atanh(0.5), torch.float64) == pytest.approx(-0.782125, abs=1e-6)


def test_the_tanh_term_is_finite_with_a_finite_slope_far_out() -> None:
    u = torch.tensor([[-200.0], [-20.0], [0.0], [20.0], [200.0]], requires_grad=True)
    value = dist.squash_log_prob(u, torch.zeros(5))
    wanted = [2 * 200 - 2 * math.log(2), 2 * 20 - 2 * math.log(2), 0.0] * 2
    assert value.tolist() == pytest.approx([*wanted[:3], wanted[1], wanted[0]], rel=1e-6)
    (slope,) = torch.autograd.grad(value.sum(), u)
    assert slope.flatten().tolist() == pytest.approx([-2.0, -2.0, 0.0, 2.0, 2.0], abs=1e-5)


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (0.7, 0.3), (-1.0, 2.0)])
def test_the_tanh_gaussian_density_integrates_to_one(mean: float, std: float) -> None:
    u = torch.linspace(mean - 9 * std, mean + 9 * std, 20_001, dtype=torch.float64)[:, None]
    m, s = torch.full_like(u, mean), torch.full_like(u, math.log(std))
    density = dist.squash_log_prob(u, dist.gaussian_log_prob(m, s, u)).exp()
    # Over actions a = tanh(u), written as an integral over u with da = (1 - tanh(u)^2) du.
    total = torch.trapezoid(density * (1 - u.squeeze(-1).tanh() ** 2), u.squeeze(-1))
    assert total.item() == pytest.approx(1.0, abs=1e-5)


def test_samples_carry_their_own_density_and_gradient() -> None:
    mean = torch.full((20_000, 2), 0.4, requires_grad=True)
    log_std = torch.full((20_000, 2), math.log(0.5), requires_grad=True)
    action, log_prob = dist.sample_squashed(mean, log_std)
    assert action.shape == (20_000, 2) and log_prob.shape == (20_000,)
    assert action.abs().max().item() < 1.0
    u = action.detach().double().atanh()
    assert u.mean(0).tolist() == pytest.approx([0.4, 0.4], abs=0.02)
    assert u.std(0).tolist() == pytest.approx([0.5, 0.5], rel=0.03)
    again = Independent(Normal(0.4, torch.full((2,), 0.5, dtype=torch.float64)), 1).log_prob(u)
    again = again - (1 - action.detach().double() ** 2).log().sum(-1)
    torch.testing.assert_close(log_prob.detach().double(), again, atol=1e-3, rtol=0)
    grads = torch.autograd.grad(action.sum(), (mean, log_std))
    assert (grads[0] > 0).all(), "actions are reparametrized: they move with the mean"
    assert grads[1].abs().sum().item() > 0


def test_gaussian_entropy_per_dimension() -> None:
    assert dist.gaussian_entropy(torch.zeros(1)).item() == pytest.approx(1.418939, abs=1e-6)
    log_std = torch.tensor([math.log(0.5), math.log(2.0), math.log(3.0)])
    assert dist.gaussian_entropy(log_std).item() == pytest.approx(3 * 1.418939 + math.log(3.0), abs=1e-5)


def test_gaussian_log_prob_sums_over_dimensions() -> None:
    mean, log_std, action = torch.randn(3, 7, 4).unbind(0)
    wanted = Independent(Normal(mean, log_std.exp()), 1).log_prob(action)
    assert dist.gaussian_log_prob(mean, log_std, action).shape == (7,)
    torch.testing.assert_close(dist.gaussian_log_prob(mean, log_std, action), wanted)


def test_categorical_by_hand() -> None:
    logits = torch.tensor([[1.0, 2.0, 3.0]]).expand(3, 3)
    log_prob = dist.categorical_log_prob(logits, torch.tensor([0, 1, 2]))
    assert log_prob.tolist() == pytest.approx([-2.407606, -1.407606, -0.407606], abs=1e-6)
    assert dist.categorical_entropy(logits).tolist() == pytest.approx([0.832396] * 3, abs=1e-6)
    assert dist.categorical_entropy(torch.zeros(1, 5)).item() == pytest.approx(math.log(5))


def test_categorical_against_torch_and_with_extreme_logits() -> None:
    logits = torch.randn(50, 6) * 5
    action = torch.randint(0, 6, (50,))
    reference = Categorical(logits=logits)
    torch.testing.assert_close(dist.categorical_log_prob(logits, action), reference.log_prob(action))
    torch.testing.assert_close(dist.categorical_entropy(logits), reference.entropy())
    extreme = torch.tensor([[1e4, -1e4, 0.0]])
    assert dist.categorical_entropy(extreme).item() == pytest.approx(0.0, abs=1e-6)
    assert dist.categorical_log_prob(extreme, torch.tensor([1])).item() == pytest.approx(-2e4)


def test_divergences_by_hand() -> None:
    old, new = torch.tensor([[0.0, 0.5]]), torch.tensor([[0.2, 0.8]])  # mean, deviation
    kl = dist.gaussian_kl(old[:, :1], old[:, 1:].log(), new[:, :1], new[:, 1:].log())
    assert kl.tolist() == pytest.approx([0.196566], abs=1e-6)
    even, odd = torch.zeros(1, 2), torch.tensor([[0.0, math.log(3.0)]])
    assert dist.categorical_kl(even, odd).tolist() == pytest.approx([-0.5 * math.log(0.75)], abs=1e-6)
    assert dist.categorical_kl(odd, even).tolist() == pytest.approx([math.log(2) + 0.25 * math.log(0.25) + 0.75 * math.log(0.75)])


def test_divergences_of_any_two() -> None:
    logits = torch.randn(2, 7, 5)
    wanted = kl_divergence(*(Categorical(logits=part) for part in logits))
    torch.testing.assert_close(dist.categorical_kl(*logits), wanted)
    mean, log_std = torch.randn(2, 7, 4), torch.randn(2, 7, 4)
    wanted = kl_divergence(*(Independent(Normal(m, s.exp()), 1) for m, s in zip(mean, log_std)))
    torch.testing.assert_close(dist.gaussian_kl(mean[0], log_std[0], mean[1], log_std[1]), wanted)
    assert dist.gaussian_kl(mean[0], log_std[0], mean[0], log_std[0]).tolist() == [0.0] * 7
