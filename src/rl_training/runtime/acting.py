"""Acting: observations in, actions out. On the CPU, plain layers run in NumPy on live views of the parameters.

For the batches of a few rows that acting sees, calling `nn.Module`s costs several times the arithmetic; NumPy does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rl_training.data.batch import tree_map
from rl_training.models.batch_renorm import BatchRenorm
from rl_training.models.encoders import Rows
from rl_training.models.mlp import Tanh
from rl_training.models.normalize import Normalizer
from rl_training.models.policies import Policy

Array = NDArray[Any]
Step = Callable[[Array], Array]


class Actor:
    """Runs a policy's network and its choice of action."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.device = next(policy.parameters()).device
        self._steps = numpy_steps(policy) if self.device.type == "cpu" else None

    def act(self, obs: Any, rng: np.random.Generator, step: int = 0, explore: bool = False) -> Array:
        """Actions for a batch of observations (NumPy in, NumPy out)."""
        return self.policy.choose(self.outputs(obs), rng, step, explore)

    def outputs(self, obs: Any) -> Array:
        """The network's outputs: logits, means, values."""
        if self._steps is None:
            with torch.no_grad():
                batch = tree_map(lambda a: torch.from_numpy(np.ascontiguousarray(a)).to(self.device), obs)
                return self.policy(batch).cpu().numpy()
        for apply in self._steps:
            obs = apply(obs)
        return obs


def numpy_steps(policy: Policy) -> list[Step] | None:
    """The policy's forward pass as NumPy functions, or None if a layer has no NumPy form here."""
    steps: list[Step] = []
    layers = [m for m in policy.net.modules() if not isinstance(m, nn.Sequential)]
    if not _is_chain(policy.net):
        return None
    if policy.normalizer is not None:
        steps.append(_normalize(policy.normalizer))
    for layer in layers:
        if isinstance(layer, nn.Identity):
            continue
        make = _FORMS.get(type(layer))
        if make is None:
            return None
        steps.append(make(layer))
    return steps


def _is_chain(module: nn.Module) -> bool:
    """Whether the modules run one after the other: leaves and (nested) Sequentials."""
    if isinstance(module, nn.Sequential):
        return all(_is_chain(child) for child in module)
    return not any(module.children())


def _linear(layer: Any) -> Step:
    # detach() keeps sharing memory with the flat parameter vector, so updates are seen without copying.
    weight, bias = layer.weight.detach().numpy().T, layer.bias.detach().numpy()

    def apply(x: Array) -> Array:
        x = x @ weight
        x += bias
        return x

    return apply


def _layer_norm(layer: Any) -> Step:
    weight, bias, eps = layer.weight.detach().numpy(), layer.bias.detach().numpy(), layer.eps

    def apply(x: Array) -> Array:
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + eps) * weight + bias

    return apply


def _batch_renorm(layer: BatchRenorm) -> Step:
    weight, bias, mean, var = (t.detach().numpy() for t in (layer.weight, layer.bias, layer.mean, layer.var))

    def apply(x: Array) -> Array:
        return (x - mean) / np.sqrt(var + layer.eps) * weight + bias

    return apply


def _normalize(layer: Normalizer) -> Step:
    mean, var, clip = layer.mean.numpy(), layer.var.numpy(), layer.clip.numpy()

    def apply(x: Array) -> Array:
        scaled = (x - mean.astype(np.float32)) * (1 / np.sqrt(var + layer.eps)).astype(np.float32)
        return scaled.clip(-clip, clip)

    return apply


_FORMS: dict[type[nn.Module], Callable[[Any], Step]] = {
    nn.Linear: _linear,
    nn.LayerNorm: _layer_norm,
    BatchRenorm: _batch_renorm,
    Tanh: lambda layer: np.tanh,
    nn.ReLU: lambda layer: lambda x: np.maximum(x, 0.0),
    nn.SiLU: lambda layer: lambda x: x / (1.0 + np.exp(-x)),
    nn.ELU: lambda layer: lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0.0))),
    Rows: lambda layer: lambda x: x.reshape(len(x), -1),
}
