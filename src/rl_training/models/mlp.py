"""Multi-layer perceptrons and their initialization."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from rl_training.config import ModelConfig
from rl_training.errors import ConfigError
from rl_training.models.ensemble import Ensemble, EnsembleLinear, through


class Tanh(nn.Module):
    """tanh, written through the logistic function where that is faster: in compiled graphs and where no gradient is taken.

    On a CPU torch's tanh takes five times as long as its sigmoid, a fifth of a compiled PPO update; both forms agree to 2e-7,
    gradients too. With eager gradients the extra operations cost what the sigmoid saves.
    """

    def forward(self, x: Tensor) -> Tensor:
        if torch.compiler.is_compiling() or not torch.is_grad_enabled():
            return torch.sigmoid(2.0 * x) * 2.0 - 1.0
        return torch.tanh(x)


class Dropout(nn.Module):
    """Zeroes each entry with probability `p` and scales the rest up, always: no network that acts has one.

    The mask comes from uniform numbers because torch's own dropout draws others when it is compiled.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return x * (torch.rand_like(x) >= self.p) / (1.0 - self.p)


class Residual(Ensemble):
    """x + layers(x)."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)

    def of(self, x: Tensor, members: slice | Tensor) -> Tensor:
        return x + through(self.layers, x, members)


ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": Tanh, "relu": nn.ReLU, "silu": nn.SiLU, "gelu": nn.GELU, "elu": nn.ELU}
HIDDEN_BIAS = 0.1  # of networks that start near zero
EXPANSION = 4  # hidden units of a residual block per unit of its width


def mlp(
    inputs: int,
    outputs: int | None,
    model: ModelConfig,
    *,
    hidden: Sequence[int] | None = None,
    output_gain: float = 1.0,
    linear: Callable[[int, int], nn.Module] = nn.Linear,
    norm: Callable[[int], nn.Module] = nn.LayerNorm,
    dropout: float = 0.0,
    norm_last: bool = False,
) -> nn.Sequential:
    """Hidden layers as configured, then a linear output unless `outputs` is None. `output_gain`: of an orthogonal output.

    `norm_last`: layers are normalized after their non-linearity, not before it.
    """
    widths = model.hidden if hidden is None else hidden
    if not model.hidden and (model.block == "residual" or model.layer_norm):
        name = "layer_norm" if model.layer_norm else "block"
        raise ConfigError(f"model.{name} is about hidden layers, and there are none.", fix=f"Leave out {name}, or give hidden")
    if model.block == "residual":
        layers = _residual(inputs, widths, model, linear, norm)
    else:
        layers = []
        for before, width in zip([inputs, *widths], widths):
            layers.append(initialize(linear(before, width), model.init, hidden_gain(model.activation)))
            if dropout:
                layers.append(Dropout(dropout))
            steps = [*[norm(width)] * model.layer_norm, ACTIVATIONS[model.activation]()]
            layers += reversed(steps) if norm_last else steps
    if outputs is not None:
        layers.append(initialize(linear(widths[-1] if widths else inputs, outputs), model.init, output_gain))
    return nn.Sequential(*layers)


def _residual(
    inputs: int,
    widths: Sequence[int],
    model: ModelConfig,
    linear: Callable[[int, int], nn.Module],
    norm: Callable[[int], nn.Module],
) -> list[nn.Module]:
    """SimBa's body (Lee et al. 2024, arXiv:2410.09754): a linear embedding, one block per width, and a last normalization."""
    if len(set(widths)) > 1:
        raise ConfigError(
            f"Residual blocks add to what comes in, so all have one width, not {tuple(widths)}.",
            fix=f"Give --model.hidden {','.join([str(widths[0])] * len(widths))}, one number per block",
        )
    if model.layer_norm:
        raise ConfigError("Residual blocks have their normalization; model.layer_norm adds none.", fix="Leave out layer_norm")
    if not widths:
        return []
    width, gain = widths[0], hidden_gain(model.activation)
    layers: list[nn.Module] = [initialize(linear(inputs, width), model.init, 1.0)]
    for _ in widths:
        widen = initialize(linear(width, EXPANSION * width), model.init, gain)
        narrow = initialize(linear(EXPANSION * width, width), model.init, 1.0)
        layers.append(Residual(norm(width), widen, ACTIVATIONS[model.activation](), narrow))
    return [*layers, norm(width)]


def normalized(model: ModelConfig) -> ModelConfig:
    """With normalized hidden layers, where there are any that are not normalized anyway."""
    return replace(model, layer_norm=bool(model.hidden) and model.block == "plain")


def hidden_gain(activation: str) -> float:
    """Orthogonal gain of hidden layers: sqrt(2), the value PPO implementations use for tanh and ReLU alike."""
    return math.sqrt(2.0) if activation in ("tanh", "relu") else 1.0


def initialize(layer: Any, scheme: str, gain: float) -> Any:
    """Initialize one layer in place; "default" keeps what PyTorch drew. Ensembles initialize each member on its own."""
    if scheme == "default":
        return layer
    weight, bias = layer.weight, layer.bias
    members = weight.data.transpose(1, 2) if weight.ndim == 3 else weight.data[None]
    for member in members:
        drawn = member.clone()
        if scheme == "orthogonal":
            nn.init.orthogonal_(drawn, gain)
        else:
            nn.init.xavier_uniform_(drawn)
        member.copy_(drawn)
    nn.init.zeros_(bias)
    return layer


@torch.no_grad()
def start_near_zero(body: nn.Sequential, bound: float) -> nn.Sequential:
    """Hidden biases of 0.1, and an output layer uniform within `bound`: what the network gives first is almost nothing."""
    *hidden, last = body
    for layer in hidden:
        for part in layer.modules():
            if isinstance(part, nn.Linear | EnsembleLinear):
                part.bias.fill_(HIDDEN_BIAS)
    for parameter in last.parameters():
        parameter.uniform_(-bound, bound)
    return body
