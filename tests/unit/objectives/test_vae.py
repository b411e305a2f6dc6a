"""The loss of the model of the data's actions: its divergence by hand, and its proportions."""

from __future__ import annotations

import math

import pytest
import torch

from rl_training.objectives.vae import kl_to_normal, vae_loss


def test_the_divergence_is_a_mean_over_latents() -> None:
    mean, log_std = torch.full((5, 4), 0.3), torch.full((5, 4), math.log(0.5))
    assert kl_to_normal(mean, log_std).item() == pytest.approx(0.363147, abs=1e-5)
    assert kl_to_normal(torch.zeros(2, 3), torch.zeros(2, 3)).item() == 0.0


def test_it_counts_half() -> None:
    mean, log_std = torch.full((2, 2), 0.3), torch.full((2, 2), math.log(0.5))
    loss = vae_loss(torch.tensor([[0.5, 0.0], [0.0, 0.0]]), torch.tensor([[0.0, 1.0], [0.0, 0.0]]), mean, log_std)
    assert loss.item() == pytest.approx((0.25 + 1.0) / 4 + 0.363147 / 2, abs=1e-5)
