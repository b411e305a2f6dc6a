"""A policy's forward pass in NumPy, on live views of the parameters, where all of its layers have such a form.

For the batches of a few rows that acting sees, calling `nn.Module`s costs several times the arithmetic; NumPy does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rl_training.models.batch_renorm import BatchRenorm
from rl_training.models.encoders import DictEncoder, Rows
from rl_training.models.mlp import Residual, Tanh
from rl_training.models.noisy import NoisyLinear, PairedLinear
from rl_training.models.normalize import Normalizer
from rl_training.models.policies import Policy
from rl_training.models.q_nets import Dueling, ImplicitNet, MeanOfAtoms, MeanOfQuantiles

Array = NDArray[Any]
Step = Callable[[Any], Any]


def numpy_policy(policy: Policy) -> Step | None:
    """What `policy(obs)` gives, or None if a layer has no NumPy form here."""
    parts = (policy.net, policy.head) if policy.normalizer is None else (policy.normalizer, policy.net, policy.head)
    return _chain(parts)


def _chain(layers: Iterable[nn.Module]) -> Step | None:
    """One layer after the other, nested Sequentials included."""
    steps = []
    for layer in _flat(layers):
        make = _FORMS.get(type(layer))
        step = None if make is None else make(layer)
        if step is None:
            return None
        steps.append(step)

    def apply(x: Any) -> Any:
        for step in steps:
            x = step(x)
        return x

    return apply


def _flat(layers: Iterable[nn.Module]) -> list[nn.Module]:
    flat: list[nn.Module] = []
    for layer in layers:
        if isinstance(layer, nn.Sequential):
            flat += _flat(layer)
        elif not isinstance(layer, nn.Identity):
            flat.append(layer)
    return flat


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


def _noisy_linear(layer: NoisyLinear) -> Step:
    def apply(x: Array) -> Array:
        weight, bias = layer.sample()  # under the noise that the actor holds
        return x @ weight.numpy().T + bias.numpy()

    return torch.no_grad()(apply)


def _paired_linear(layer: PairedLinear) -> Step:
    plain, noise, shift = _linear(layer), layer.weight_noise.numpy(), layer.bias_noise.numpy()

    def apply(x: Array) -> Array:
        y = plain(x)
        if layer.apart:
            row = np.arange(len(x)) % (2 * len(noise))
            side = np.where(row < len(noise), np.float32(layer.sigma), np.float32(-layer.sigma))[:, None]
            row %= len(noise)
            y += side * (np.matmul(noise[row], x[..., None])[..., 0] + shift[row])
        return y

    return apply


def _residual(layer: Residual) -> Step | None:
    inner = _chain(layer.layers)
    return None if inner is None else lambda x: x + inner(x)


def _dueling(layer: Dueling) -> Step | None:
    value, advantage = _chain(layer.value), _chain(layer.advantage)
    if value is None or advantage is None:
        return None

    def apply(x: Array) -> Array:
        v, a = value(x), advantage(x)
        v = v if layer.axis == -1 else v[..., None, :]
        return v + a - a.mean(layer.axis, keepdims=True)

    return apply


def _implicit(layer: ImplicitNet) -> Step | None:
    features, head = _chain((layer.encoder, layer.trunk)), _chain((layer.head,))
    if features is None or head is None:
        return None
    linear: Any = layer.embedding[0]
    weight, bias = linear.weight.detach().numpy().T, linear.bias.detach().numpy()
    cosines = np.cos(layer.middles.numpy()[:, None] * layer.frequencies.numpy())

    def apply(x: Any) -> Array:
        embedded = np.maximum(cosines @ weight + bias, 0.0)
        return np.moveaxis(head(features(x)[:, None] * embedded), -1, -2)

    return apply


def _mean_of_atoms(layer: MeanOfAtoms) -> Step:
    atoms = layer.atoms.numpy()

    def apply(x: Array) -> Array:
        p = np.exp(x - x.max(-1, keepdims=True))
        return p @ atoms / p.sum(-1)

    return apply


def _dict_encoder(layer: DictEncoder) -> Step | None:
    encoders = [_chain((encoder,)) for encoder in layer.encoders]
    if None in encoders:
        return None
    pairs = list(zip(layer.keys, encoders))
    return lambda obs: np.concatenate([encode(obs[key]) for key, encode in pairs if encode is not None], -1)


def _normalize(layer: Normalizer) -> Step:
    mean, var, clip = layer.mean.numpy(), layer.var.numpy(), layer.clip.numpy()

    def apply(x: Array) -> Array:
        scaled = (x - mean.astype(np.float32)) * (1 / np.sqrt(var + layer.eps)).astype(np.float32)
        return scaled.clip(-clip, clip)

    return apply


_FORMS: dict[type[nn.Module], Callable[[Any], Step | None]] = {
    Normalizer: _normalize,
    DictEncoder: _dict_encoder,
    nn.Linear: _linear,
    NoisyLinear: _noisy_linear,
    PairedLinear: _paired_linear,
    Residual: _residual,
    Dueling: _dueling,
    ImplicitNet: _implicit,
    MeanOfAtoms: _mean_of_atoms,
    MeanOfQuantiles: lambda layer: lambda x: x.mean(-1),
    nn.Unflatten: lambda layer: lambda x: x.reshape(*x.shape[:-1], *layer.unflattened_size),
    nn.LayerNorm: _layer_norm,
    BatchRenorm: _batch_renorm,
    Tanh: lambda layer: np.tanh,
    nn.ReLU: lambda layer: lambda x: np.maximum(x, 0.0),
    nn.SiLU: lambda layer: lambda x: x / (1.0 + np.exp(-x)),
    nn.ELU: lambda layer: lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0.0))),
    Rows: lambda layer: lambda x: x.reshape(len(x), -1),
}
