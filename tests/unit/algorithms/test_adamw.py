"""Adam with weight decay, beside PyTorch's."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rl_training.algorithms.adamw import AdamW
from rl_training.algorithms.base import Algorithm, Batch


class Line(Algorithm):
    def __init__(self, **settings: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Linear(3, 2)
        self.optim = AdamW(self, ["net"], 0.01, **settings)

    def loss(self, x: Tensor) -> tuple[Tensor, Batch]:
        return self.net(x).square().mean(), {}


def test_it_is_that_of_pytorch() -> None:
    """With a linear warm-up of four steps, clipping, and a decay strong enough to be felt."""
    mine, theirs = Line(weight_decay=0.5, warmup=4, max_norm=0.1), nn.Linear(3, 2)
    theirs.load_state_dict(mine.net.state_dict())
    reference = torch.optim.AdamW(theirs.parameters(), lr=0.01, weight_decay=0.5)
    warmup = torch.optim.lr_scheduler.LambdaLR(reference, lambda n: min((n + 1) / 4, 1))
    for n in range(8):
        x = torch.randn(5, 3, generator=torch.Generator().manual_seed(n))
        mine.optim.minimize("loss", x)
        reference.zero_grad()
        theirs(x).square().mean().backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), 0.1)
        reference.step()
        warmup.step()
        torch.testing.assert_close(mine.net.weight, theirs.weight, atol=1e-6, rtol=1e-5)


def test_without_a_warmup_the_first_step_is_a_full_one() -> None:
    line = Line(weight_decay=0.0, warmup=0)
    before = line.net.weight.detach().clone()
    line.optim.minimize("loss", torch.ones(5, 3))
    assert (line.net.weight - before).abs().min().item() > 0.0099
