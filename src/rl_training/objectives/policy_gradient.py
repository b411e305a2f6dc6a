"""Clipped policy-gradient objectives (Schulman et al. 2017, "Proximal Policy Optimization Algorithms", arXiv:1707.06347)."""

from __future__ import annotations

from torch import Tensor


def normalize_advantage(advantage: Tensor) -> Tensor:
    """Zero mean and unit (sample) deviation over the minibatch; a minibatch of one row only loses its scale."""
    if advantage.numel() < 2:
        return advantage
    return (advantage - advantage.mean()) / (advantage.std() + 1e-8)


def clipped_surrogate(log_ratio: Tensor, advantage: Tensor, clip: Tensor) -> Tensor:
    """-min(rho A, clip(rho, 1 - clip, 1 + clip) A) per sample, with rho = exp(log_ratio)."""
    ratio = log_ratio.exp()
    return -(ratio * advantage).minimum(ratio.clamp(1 - clip, 1 + clip) * advantage)


def clipped_value_loss(value: Tensor, old_value: Tensor, target: Tensor, clip: Tensor | None) -> Tensor:
    """Squared error per sample; with `clip`, the worse of the plain and the clipped prediction."""
    plain = (value - target).square()
    if clip is None:
        return plain
    clipped = old_value + (value - old_value).clamp(-clip, clip)
    return plain.maximum((clipped - target).square())


def approximate_kl(log_ratio: Tensor) -> Tensor:
    """Low-variance, non-negative estimate of KL(old || new) per sample: rho - 1 - log rho."""
    return log_ratio.exp() - 1 - log_ratio
