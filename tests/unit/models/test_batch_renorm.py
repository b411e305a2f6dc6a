"""Batch renormalization against NumPy: batch statistics while warming up, clipped corrections after, running statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rl_training.models.batch_renorm import BatchRenorm


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


class Reference:
    """Written from the paper's formulas, on (B, width) arrays of doubles."""

    def __init__(self, width: int, warmup: int, momentum: float = 0.99, eps: float = 1e-3) -> None:
        self.mean, self.var, self.updates = np.zeros(width), np.ones(width), 0
        self.warmup, self.momentum, self.eps = warmup, momentum, eps

    def train(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        mean, var = x.mean(0), x.var(0)
        r, d = np.ones(len(mean)), np.zeros(len(mean))
        if self.updates >= self.warmup:
            running = np.sqrt(self.var + self.eps)
            r = np.clip(np.sqrt(var + self.eps) / running, 1 / 3, 3)
            d = np.clip((mean - self.mean) / running, -5, 5)
        self.mean = self.momentum * self.mean + (1 - self.momentum) * mean
        self.var = self.momentum * self.var + (1 - self.momentum) * var
        self.updates += 1
        return (x - mean) / np.sqrt(var + self.eps) * r + d


def test_training_passes_and_running_statistics_equal_the_reference() -> None:
    layer, reference = BatchRenorm(4, warmup=3, momentum=0.7), Reference(4, warmup=3, momentum=0.7)
    rng = np.random.default_rng(0)
    # The third column moves too far for the shift, the fourth spreads too far for the scale.
    centre, spread = np.array([0.0, 1.0, 40.0, 0.0]), np.array([1.0, 0.4, 1.0, 30.0])
    for n in range(6):
        x = rng.standard_normal((32, 4)) * spread * (1 if n % 2 else 4) + centre * n
        y, found = layer.in_training(torch.from_numpy(x).float())
        layer.absorb(*found)
        np.testing.assert_allclose(y.detach().numpy(), reference.train(x), rtol=2e-4, atol=2e-4, err_msg=f"update {n}")
        np.testing.assert_allclose(layer.mean[0].numpy(), reference.mean, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(layer.var[0].numpy(), reference.var, rtol=1e-5)
    frozen = layer(torch.from_numpy(x).float()).detach().numpy()
    np.testing.assert_allclose(frozen, (x - reference.mean) / np.sqrt(reference.var + 1e-3), rtol=1e-4, atol=1e-4)


def test_the_corrections_are_clipped() -> None:
    layer = BatchRenorm(2, warmup=0, eps=0.0)
    x = torch.tensor([[-100.0, 999.999], [100.0, 1000.001]])  # deviations 100 and 0.001, means 0 and 1000
    y, _ = layer.in_training(x)
    torch.testing.assert_close(y, torch.tensor([[-3.0, 5 - 1 / 3], [3.0, 5 + 1 / 3]]), atol=0.02, rtol=0)


def test_the_switch_comes_after_so_many_updates_and_survives_a_checkpoint() -> None:
    x = torch.randn(16, 2) * 2 + 1

    def differs_from_plain(layer: BatchRenorm) -> bool:
        return not torch.allclose(layer.in_training(x)[0].mean(0), torch.zeros(2), atol=1e-5)

    layer = BatchRenorm(2, warmup=2)
    seen = []
    for _ in range(3):
        seen.append(differs_from_plain(layer))
        layer.absorb(*layer.in_training(x)[1])
    assert seen == [False, False, True]
    other = BatchRenorm(2, warmup=2)
    other.load_state_dict(layer.state_dict())
    assert differs_from_plain(other) and {"mean", "var", "updates"} <= set(layer.state_dict())


def test_gradients_take_the_corrections_as_given() -> None:
    layer = BatchRenorm(3, warmup=0)
    layer.mean.add_(0.3)
    layer.var.mul_(1.7)
    x, away = torch.randn(8, 3, requires_grad=True), torch.randn(8, 3)
    (found,) = torch.autograd.grad((layer.in_training(x)[0] * away).sum(), x)
    plain = BatchRenorm(3)
    (unscaled,) = torch.autograd.grad((plain.in_training(x)[0] * away).sum(), x)
    scale = ((x.var(0, correction=0) + 1e-3) / (1.7 + 1e-3)).sqrt().detach()
    torch.testing.assert_close(found, unscaled * scale)


def test_each_member_has_statistics_of_its_own() -> None:
    layer = BatchRenorm(3, members=2)
    x = torch.randn(2, 16, 3) * torch.tensor([1.0, 5.0]).reshape(2, 1, 1)
    y, found = layer.in_training(x)
    layer.absorb(*found)
    for i in range(2):
        alone = BatchRenorm(3)
        expected, statistics = alone.in_training(x[i])
        alone.absorb(*statistics)
        torch.testing.assert_close(y[i], expected)
        torch.testing.assert_close(layer.var[i], alone.var)
        torch.testing.assert_close(layer(x)[i], alone(x[i]))


def test_a_plain_call_changes_nothing() -> None:
    layer = BatchRenorm(3)
    before = {key: value.clone() for key, value in layer.state_dict().items()}
    layer(torch.randn(8, 3))
    layer.in_training(torch.randn(8, 3))
    assert all(torch.equal(value, before[key]) for key, value in layer.state_dict().items())
