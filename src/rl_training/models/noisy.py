"""Linear layers that explore by noise on their weights (Fortunato et al. 2018, arXiv:1706.10295)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F


class NoisyLinear(nn.Module):
    """Weights and biases with learned deviations. The noise of a weight is f(e_out) f(e_in), f(z) = sgn(z) sqrt|z|.

    A plain call, as losses make it, draws new noise for the whole batch; acting holds it with `perturbed`.
    """

    def __init__(self, inputs: int, outputs: int, sigma: float) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))
        self.weight_sigma = nn.Parameter(torch.full((outputs, inputs), sigma * bound))
        self.bias_sigma = nn.Parameter(torch.full((outputs,), sigma * bound))
        self.held: tuple[Tensor, Tensor] | None = None  # noise of the inputs and of the outputs, while something holds it

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, *self.sample())

    def sample(self) -> tuple[Tensor, Tensor]:
        """Weight and bias under the held noise, or under new noise."""
        into, out = self._draw() if self.held is None else self.held
        return self.weight + self.weight_sigma * torch.outer(out, into), self.bias + self.bias_sigma * out

    def _draw(self) -> tuple[Tensor, Tensor]:
        outputs, inputs = self.weight.shape
        noise = torch.randn(inputs + outputs, device=self.weight.device)
        into, out = (noise.sign() * noise.abs().sqrt()).split([inputs, outputs])
        return into, out

    def hold(self, rng: np.random.Generator | None) -> None:
        """Keep one sample from `rng`, or none of the noise, for the calls that follow."""
        outputs, inputs = self.weight.shape
        drawn = np.zeros(inputs + outputs, np.float32) if rng is None else rng.standard_normal(inputs + outputs, np.float32)
        noise = torch.from_numpy(np.copysign(np.sqrt(np.abs(drawn)), drawn)).to(self.weight.device)
        self.held = noise[:inputs], noise[inputs:]


@contextmanager
def perturbed(layers: Sequence[NoisyLinear], rng: np.random.Generator | None) -> Iterator[None]:
    """One sample of the noise from `rng` in all of these layers, or without `rng` their means."""
    for layer in layers:
        layer.hold(rng)
    try:
        yield
    finally:
        for layer in layers:
            layer.held = None
