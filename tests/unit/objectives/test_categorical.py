"""The projection of return distributions against hand-computed numbers, and against an independent loop on random ones."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from rl_training.objectives.categorical import cross_entropy, project

ATOMS = torch.linspace(-10, 10, 51)


def moved(reward: float, discount: float, atoms: Tensor = ATOMS, probability: Tensor | None = None) -> Tensor:
    if probability is None:
        probability = torch.eye(51)[25]  # certainly 0
    return project(probability[None], (reward + discount * atoms)[None], atoms)[0]


@pytest.mark.parametrize(
    ("reward", "discount", "expected"),
    [
        (0.0, 0.0, {25: 1.0}),
        (0.1, 0.0, {25: 0.75, 26: 0.25}),
        (1.0, 0.99, {27: 0.5, 28: 0.5}),
        (100.0, 0.99, {50: 1.0}),
        (-100.0, 0.99, {0: 1.0}),
    ],
)
def test_a_certain_return(reward: float, discount: float, expected: dict[int, float]) -> None:
    found = moved(reward, discount)
    assert {i: p for i, p in enumerate(found.tolist()) if p > 1e-4} == pytest.approx(expected, abs=1e-4)
    assert found.sum().item() == pytest.approx(1.0, abs=1e-5)


def test_three_atoms() -> None:
    atoms, p = torch.tensor([-1.0, 0.0, 1.0]), torch.tensor([0.25, 0.5, 0.25])
    assert moved(0.5, 1.0, atoms, p).tolist() == pytest.approx([0.125, 0.375, 0.5])
    assert moved(0.0, 0.5, atoms, p).tolist() == pytest.approx([0.125, 0.75, 0.125])


def independent(p: list[float], value: list[float], low: float, high: float) -> list[float]:
    spacing, out = (high - low) / (len(p) - 1), [0.0] * len(p)
    for mass, z in zip(p, value):
        place = (min(max(z, low), high) - low) / spacing
        below = min(math.floor(place), len(p) - 2)
        out[below] += mass * (below + 1 - place)
        out[below + 1] += mass * (place - below)
    return out


def test_mass_and_mean_are_kept() -> None:
    torch.manual_seed(0)
    p = torch.rand(200, 51).softmax(-1)
    reward, discount = torch.rand(200, 1) * 2 - 1, torch.rand(200, 1) * 0.9
    reward[:50] = reward[:50].round()  # on atoms, where a projection by floor and ceiling loses the mass
    discount[:50] = 1.0 * (torch.rand(50, 1) < 0.5)
    value = reward + discount * ATOMS
    found = project(p, value, ATOMS)
    torch.testing.assert_close(found.sum(-1), torch.ones(200), atol=1e-5, rtol=0)
    inside = (value.abs() <= 10).all(-1)
    assert inside.sum() > 100
    torch.testing.assert_close((found * ATOMS).sum(-1)[inside], (p * value).sum(-1)[inside], atol=1e-4, rtol=0)
    by_hand = [independent(a, b, -10.0, 10.0) for a, b in zip(p.tolist(), value.tolist())]
    torch.testing.assert_close(found, torch.tensor(by_hand), atol=2e-5, rtol=0)


def test_cross_entropy_by_hand() -> None:
    target, logits = torch.tensor([[0.25, 0.75]]), torch.tensor([[0.0, math.log(3.0)]])
    expected = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    assert cross_entropy(target, logits).tolist() == pytest.approx([expected])
