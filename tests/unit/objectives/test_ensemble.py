"""What many critics make of one value: hand-computed mixtures and alignments, and their gradients."""

from __future__ import annotations

import math

import pytest
import torch

from rl_training.objectives.ensemble import alignment, soft_clipped


def test_soft_clipping_mixes_the_least_and_the_greatest() -> None:
    assert soft_clipped(torch.tensor([1.0, 3.0]), 0.75).item() == 1.5
    q = torch.tensor([[1.0, -2.0], [5.0, 0.0], [3.0, 4.0]])
    assert soft_clipped(q, 0.75).tolist() == [0.75 * 1 + 0.25 * 5, 0.75 * -2 + 0.25 * 4]
    assert soft_clipped(q, 1.0).tolist() == q.min(0).values.tolist()


THIRD = 2 * math.pi / 3


@pytest.mark.parametrize(
    ("slopes", "expected"),
    [
        ([(0.3, -2.0)] * 10, 10.0),  # as many as there are
        ([(1.0, 0.0), (0.0, 2.0)], 0.0),
        ([(1.0, 0.0), (-3.0, 0.0)], -2.0),
        ([(math.cos(i * THIRD), math.sin(i * THIRD)) for i in range(3)], -1.5),
        ([(2.0, 0.0), (0.0, 3.0), (1.0, 1.0)], 1.414214),
    ],
)
def test_alignment(slopes: list[tuple[float, float]], expected: float) -> None:
    rows = torch.tensor(slopes)[:, None].expand(-1, 4, -1)
    assert alignment(rows).item() == pytest.approx(expected, abs=1e-5)


def test_alignment_is_the_mean_over_rows_of_all_pairs() -> None:
    torch.manual_seed(0)
    slopes = torch.randn(6, 5, 3, dtype=torch.float64, requires_grad=True)
    rows = [torch.nn.functional.cosine_similarity(slopes[i], slopes[j], dim=-1) for i in range(6) for j in range(6) if i != j]
    by_pairs = torch.stack(rows).sum(0).mean() / 5
    assert alignment(slopes).item() == pytest.approx(by_pairs.item(), abs=1e-9)
    (mine,), (theirs,) = (torch.autograd.grad(value, slopes) for value in (alignment(slopes), by_pairs))
    torch.testing.assert_close(mine, theirs)


def test_a_critic_without_slope_is_aligned_with_none() -> None:
    slopes = torch.zeros(3, 2, 2, requires_grad=True)
    value = alignment(slopes)
    assert value.item() == 0.0 and torch.autograd.grad(value, slopes)[0].isfinite().all()
