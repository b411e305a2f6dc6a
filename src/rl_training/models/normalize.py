"""Running normalization that lives inside the model: saved with it, frozen in evaluation and export."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
        count, mean, var = _merged(self.count, self.mean, self.var, rows)
        self.mean.copy_(mean)
        self.var.copy_(var)
        self.count.copy_(count)

    @torch.no_grad()
    def fit(self, blocks: Iterable[Tensor], eps: float) -> None:
        """Take the statistics of stored data once, block by block: deviation = std + eps and no clipping, as offline methods
        define it."""
        count, mean, var = 0, torch.zeros_like(self.mean), torch.zeros_like(self.var)
        for block in blocks:
            rows = block.to(self.mean.device).reshape(-1, *self.mean.shape).double()
            count, mean, var = _merged(count, mean, var, rows)
        self.mean.copy_(mean)
        self.var.copy_((var.sqrt() + eps).square() - self.eps)
        self.count.fill_(count)
        self.clip.fill_(torch.inf)  # also the mark of fitted statistics, which observe() leaves alone


def _merged(count: Any, mean: Tensor, var: Tensor, rows: Tensor) -> tuple[Any, Tensor, Tensor]:
    """Count, mean and variance of what was seen before and of these rows together (Chan et al. 1979)."""
    n, delta, total = len(rows), rows.mean(0) - mean, count + len(rows)
    new = (var * count + rows.var(0, correction=0) * n + delta.square() * count * n / total) / total
    return total, mean + delta * n / total, new
