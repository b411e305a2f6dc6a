"""Terms that turn an online rule into its offline relatives. A term reads predictions and steps nothing."""

from __future__ import annotations

from torch import Tensor, nn


class BehaviorCloning(nn.Module):
    """TD3+BC's actor objective (Fujimoto & Gu 2021, arXiv:2106.06860): -lambda * Q + mean squared distance to the data's action.

    lambda = alpha / mean |Q|, so that one alpha fits every reward scale; the mean of the distance runs over batch and dimensions.
    """

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, q: Tensor, action: Tensor, data_action: Tensor) -> Tensor:
        scale = self.alpha / q.detach().abs().mean()
        return -scale * q.mean() + (action - data_action).square().mean()
