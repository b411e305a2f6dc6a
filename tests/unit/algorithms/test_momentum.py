"""Momentum takes the steps of torch's own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from rl_training.algorithms.base import Algorithm, Batch
from rl_training.algorithms.momentum import Momentum


class Slope(Algorithm):
    """A loss whose gradient is what the batch says."""

    def __init__(self, lr: float) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.zeros(2))
        self.optim = Momentum(self, ["x"], lr)

    def loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        return (self.x * batch["slope"]).sum(), {}


def test_steps_are_those_of_torch() -> None:
    rule, other = Slope(lr=0.1), torch.zeros(2, requires_grad=True)
    sgd = torch.optim.SGD([other], lr=0.1, momentum=0.9)
    for slope in ([3.0, 1.0], [-1.0, 1.0], [0.5, 1.0]):
        rule.optim.minimize("loss", {"slope": torch.tensor(slope)})
        other.grad = torch.tensor(slope)
        sgd.step()
        assert rule.x.tolist() == pytest.approx(other.tolist(), rel=1e-6)
    assert rule.x[1].item() == pytest.approx(-0.1 * (1.0 + 1.9 + 2.71), rel=1e-6)


def test_its_state_is_the_velocity_and_the_step_size() -> None:
    assert set(Slope(lr=0.1).state_dict()) == {"x", "optim.velocity", "optim.lr"}
