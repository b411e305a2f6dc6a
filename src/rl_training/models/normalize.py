"""Running normalization that lives inside the model: saved with it, frozen in evaluation and export."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Normalizer(nn.Module):
    """(x - mean) / deviation, clipped. Statistics change only through `observe` and `fit`."""

    mean: Tensor
    var: Tensor
    count: Tensor
    clip: Tensor

    def __init__(self, shape: tuple[int, ...], clip: float = 10.0, eps: float = 1e-8) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("var", torch.ones(shape, dtype=torch.float64))
        self.register_buffer("count", torch.tensor(1e-4, dtype=torch.float64))
        self.register_buffer("clip", torch.tensor(clip))

    def forward(self, x: Tensor) -> Tensor:
        scale = (self.var + self.eps).rsqrt()
        return ((x - self.mean.float()) * scale.float()).clamp(-self.clip, self.clip)

    @torch.no_grad()
    def observe(self, rows: Tensor) -> None:
        """Merge a batch of rows (any leading shape) into the running mean and variance, unless they were fitted."""
        rows = rows.reshape(-1, *self.mean.shape).double()
        if not len(rows) or torch.isinf(self.clip):
            return
        n, mean, var = len(rows), rows.mean(0), rows.var(0, correction=0)
        delta, total = mean - self.mean, self.count + n
        self.var.copy_((self.var * self.count + var * n + delta.square() * self.count * n / total) / total)
        self.mean.add_(delta * n / total)
        self.count.copy_(total)

    @torch.no_grad()
    def fit(self, rows: Tensor, eps: float) -> None:
        """Take the statistics of stored data once: deviation = std + eps and no clipping, as offline methods define it."""
        rows = rows.reshape(-1, *self.mean.shape).double()
        self.mean.copy_(rows.mean(0))
        self.var.copy_((rows.std(0, correction=0) + eps).square() - self.eps)
        self.count.fill_(len(rows))
        self.clip.fill_(torch.inf)  # also the mark of fitted statistics, which observe() leaves alone
