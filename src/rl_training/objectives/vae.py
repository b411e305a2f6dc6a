"""The loss of a variational autoencoder of actions, in the proportions of BCQ (Fujimoto et al. 2019, arXiv:1812.02900)."""

from __future__ import annotations

from torch import Tensor


def kl_to_normal(mean: Tensor, log_std: Tensor) -> Tensor:
    """KL(N(mean, std) || N(0, 1)), the mean over rows and dimensions: summed over dimensions it would empty the latents."""
    return -0.5 * (1.0 + 2.0 * log_std - mean.square() - (2.0 * log_std).exp()).mean()


def vae_loss(reconstruction: Tensor, action: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Mean squared error plus half the divergence of the latents."""
    return (reconstruction - action).square().mean() + 0.5 * kl_to_normal(mean, log_std)
