"""RMSprop as TensorFlow has it: the mean square starts at 1 and eps is under the root."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from rl_training.algorithms.base import Algorithm, Batch
from rl_training.algorithms.rmsprop import RMSprop


class Slope(Algorithm):
    """A loss whose gradient is what the batch says."""

    def __init__(self, lr: float, max_norm: float | None = None) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.zeros(2))
        self.optim = RMSprop(self, ["x"], lr, max_norm=max_norm)

    def loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        return (self.x * batch["slope"]).sum(), {}


def test_the_first_step_is_that_of_tensorflow_not_of_torch() -> None:
    rule = Slope(lr=1.0)
    rule.optim.minimize("loss", {"slope": torch.tensor([1e-3, 0.0])})
    assert rule.x.tolist() == pytest.approx([-0.001005, 0.0], abs=5e-7)
    other = torch.zeros(1, requires_grad=True)
    other.grad = torch.tensor([1e-3])
    torch.optim.RMSprop([other], lr=1.0, alpha=0.99, eps=1e-5).step()
    assert other.item() == pytest.approx(-9.0909, abs=1e-4)


def test_eps_is_under_the_root() -> None:
    rule = Slope(lr=1.0)
    rule.optim.exp_avg_sq.zero_()
    rule.optim.minimize("loss", {"slope": torch.tensor([1e-3, 0.0])})
    assert rule.x[0].item() == pytest.approx(-1e-3 / math.sqrt(1e-8 + 1e-5), rel=1e-5), "outside, it would be 9.0909"


def test_steps_by_hand() -> None:
    rule, x, square = Slope(lr=0.1), 0.0, 1.0
    for slope in (3.0, -1.0, 0.5, 0.5):
        rule.optim.minimize("loss", {"slope": torch.tensor([slope, 0.0])})
        square = 0.99 * square + 0.01 * slope**2
        x -= 0.1 * slope / math.sqrt(square + 1e-5)
        assert rule.x[0].item() == pytest.approx(x, rel=1e-5)


def test_the_gradient_is_clipped_before_it_is_remembered() -> None:
    rule = Slope(lr=1.0, max_norm=0.5)
    rule.optim.minimize("loss", {"slope": torch.tensor([3.0, 4.0])})
    assert rule.optim.exp_avg_sq.tolist() == pytest.approx([0.99 + 0.01 * 0.09, 0.99 + 0.01 * 0.16], rel=1e-5)


def test_its_state_is_the_mean_square_and_the_step_size() -> None:
    assert set(Slope(lr=0.1).state_dict()) == {"x", "optim.exp_avg_sq", "optim.lr"}
