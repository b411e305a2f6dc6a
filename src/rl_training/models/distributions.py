"""Log-probabilities and entropies, written out because torch.distributions objects cost more than the maths in them."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

EDGE = 1e-5  # stored actions are taken to be at least this far from the bounds, where a tanh density is infinite
LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


def categorical_log_prob(logits: Tensor, action: Tensor) -> Tensor:
    """Log-probability of integer actions (B,) under logits (B, A)."""
    return logits.log_softmax(-1).gather(-1, action.unsqueeze(-1)).squeeze(-1)


def categorical_entropy(logits: Tensor) -> Tensor:
    """Entropy per row."""
    log_p = logits.log_softmax(-1)
    return -(log_p.exp() * log_p).sum(-1)


def categorical_kl(old: Tensor, new: Tensor) -> Tensor:
    """KL(old || new) per row of logits (B, A)."""
    log_p, log_q = old.log_softmax(-1), new.log_softmax(-1)
    return (log_p.exp() * (log_p - log_q)).sum(-1)


def gaussian_log_prob(mean: Tensor, log_std: Tensor, action: Tensor) -> Tensor:
    """Log-density of a diagonal Gaussian, summed over action dimensions."""
    z = (action - mean) * (-log_std).exp()
    return -(0.5 * z.square() + log_std + LOG_SQRT_2PI).sum(-1)


def gaussian_entropy(log_std: Tensor) -> Tensor:
    """Entropy of a diagonal Gaussian, summed over action dimensions."""
    return (log_std + 0.5 + LOG_SQRT_2PI).sum(-1)


def gaussian_kl(old_mean: Tensor, old_log_std: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """KL(old || new) of diagonal Gaussians, summed over action dimensions."""
    ratio = (2.0 * (old_log_std - log_std)).exp()
    shift = (old_mean - mean).square() * (-2.0 * log_std).exp()
    return (log_std - old_log_std + 0.5 * (ratio + shift - 1.0)).sum(-1)


def squash_log_prob(u: Tensor, log_prob: Tensor) -> Tensor:
    """Log-density of tanh(u) from that of u. log(1 - tanh(u)^2) is written so that it stays exact for large |u|."""
    return log_prob - (2.0 * (math.log(2.0) - u - F.softplus(-2.0 * u))).sum(-1)


def sample_squashed(mean: Tensor, log_std: Tensor) -> tuple[Tensor, Tensor]:
    """A reparametrized tanh-Gaussian sample in [-1, 1] and its log-density."""
    u = mean + log_std.exp() * torch.randn_like(mean)
    return u.tanh(), squash_log_prob(u, gaussian_log_prob(mean, log_std, u))


def squashed_log_prob(mean: Tensor, log_std: Tensor, action: Tensor) -> Tensor:
    """Log-density of stored actions in [-1, 1] under a tanh-Gaussian."""
    u = action.clamp(-1 + EDGE, 1 - EDGE).atanh()
    return squash_log_prob(u, gaussian_log_prob(mean, log_std, u))
