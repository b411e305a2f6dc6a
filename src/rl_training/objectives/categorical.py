"""Distributions of returns on fixed, evenly spaced atoms (Bellemare et al. 2017, arXiv:1707.06887)."""

from __future__ import annotations

import torch
from torch import Tensor


def project(probability: Tensor, value: Tensor, atoms: Tensor) -> Tensor:
    """Move each probability from where it is to the two atoms around it, in proportion to nearness: (B, K) at (B, K) -> (B, K).

    An atom at distance d (in spacings) gets the share max(0, 1 - d), so that shares add up to 1 wherever a value falls, also on
    an atom; values beyond the ends count as the ends. Each result is a sum in fixed order: the same on every device and run.
    """
    spacing = (atoms[-1] - atoms[0]) / (len(atoms) - 1)
    place = (value.clamp(atoms[0], atoms[-1]) - atoms[0]) / spacing
    share = (1 - (place.unsqueeze(-1) - torch.arange(len(atoms), device=atoms.device)).abs()).clamp(min=0)
    return (probability.unsqueeze(-1) * share).sum(-2)


def cross_entropy(target: Tensor, logits: Tensor) -> Tensor:
    """Of predicted logits under target probabilities, per row."""
    return -(target * logits.log_softmax(-1)).sum(-1)
