"""Layers that explore by noise on their weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Perturbed(nn.Module):
    """A layer that acts with noise on its weights while something holds it (see `perturbed`)."""

    def hold(self, rng: np.random.Generator | None) -> None:
        """Act with noise from `rng` in the calls that follow, or without `rng` with none."""
        raise NotImplementedError()

    def release(self) -> None:
        """Back to what losses call."""
        raise NotImplementedError()


@contextmanager
def perturbed(layers: Sequence[Perturbed], rng: np.random.Generator | None) -> Iterator[None]:
    """One sample of the noise from `rng` in all of these layers, or without `rng` their means."""
    for layer in layers:
        layer.hold(rng)
    try:
        yield
    finally:
        for layer in layers:
            layer.release()


class NoisyLinear(Perturbed):
    """Weights and biases with learned deviations (Fortunato et al. 2018, arXiv:1706.10295).

    The noise of a weight is f(e_out) f(e_in), f(z) = sgn(z) sqrt|z|. A plain call, as losses make it, draws new noise.
    """

    def __init__(self, inputs: int, outputs: int, sigma: float) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))
        self.weight_sigma = nn.Parameter(torch.full((outputs, inputs), sigma * bound))
        self.bias_sigma = nn.Parameter(torch.full((outputs,), sigma * bound))
        self.held: tuple[Tensor, Tensor] | None = None  # noise of the inputs and of the outputs

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
        outputs, inputs = self.weight.shape
        drawn = np.zeros(inputs + outputs, np.float32) if rng is None else rng.standard_normal(inputs + outputs, np.float32)
        noise = torch.from_numpy(np.copysign(np.sqrt(np.abs(drawn)), drawn)).to(self.weight.device)
        self.held = noise[:inputs], noise[inputs:]

    def release(self) -> None:
        self.held = None


class PairedLinear(Perturbed):
    """A linear layer that explores in pairs: of 2 D rows, row i acts with W + sigma d_i and row D + i with W - sigma d_i.

    The directions d_i stay until they are redrawn, so that what each row earns tells how good its direction is. More rows begin
    again with the first direction.
    """

    weight_noise: Tensor
    bias_noise: Tensor

    def __init__(self, inputs: int, outputs: int, directions: int, sigma: float) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.sigma, self.apart = sigma, False
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))
        self.register_buffer("weight_noise", torch.randn(directions, outputs, inputs))
        self.register_buffer("bias_noise", torch.randn(directions, outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = F.linear(x, self.weight, self.bias)
        if not self.apart:
            return y
        count = len(self.weight_noise)
        row = torch.arange(len(x), device=x.device)
        noise = torch.einsum("nij,nj->ni", self.weight_noise[row % count], x) + self.bias_noise[row % count]
        return y + self.sigma * torch.where(row % (2 * count) < count, 1.0, -1.0).unsqueeze(-1) * noise

    def hold(self, rng: np.random.Generator | None) -> None:
        self.apart = rng is not None

    def release(self) -> None:
        self.apart = False

    @torch.no_grad()
    def move(self, weights: Tensor) -> None:
        """Add the weighted sum of the directions, and draw new ones."""
        self.weight.add_(torch.einsum("d,dij->ij", weights, self.weight_noise))
        self.bias.add_(weights @ self.bias_noise)
        self.weight_noise.copy_(torch.randn_like(self.weight_noise))
        self.bias_noise.copy_(torch.randn_like(self.bias_noise))
