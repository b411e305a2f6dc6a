"""From an observation (array or dict of arrays) to one feature vector."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from rl_training.config import ModelConfig
from rl_training.errors import ConfigError
from rl_training.models.mlp import initialize
from rl_training.specs import Leaf, ObsSpec

IMAGE_FEATURES = 512


def make_encoder(spec: ObsSpec, model: ModelConfig) -> tuple[nn.Module, int]:
    """The encoder for an observation spec and the number of features it gives."""
    if model.encoder == "nature" and not any(leaf.is_image for leaf in spec.leaves):
        raise ConfigError("model.encoder = nature takes images; there are none in these observations.", fix="Leave out encoder")
    parts = {leaf.key: _leaf_encoder(leaf, model) for leaf in spec.leaves}
    if not spec.is_dict:
        return parts[""]
    encoders = [encoder for encoder, _ in parts.values()]
    return DictEncoder(list(parts), encoders), sum(size for _, size in parts.values())


def _leaf_encoder(leaf: Leaf, model: ModelConfig) -> tuple[nn.Module, int]:
    if leaf.is_image and model.encoder != "flat":
        return NatureCNN(leaf.shape, model.init), IMAGE_FEATURES
    if leaf.is_image:
        return nn.Sequential(PixelScale(), nn.Flatten()), leaf.size
    return (nn.Identity() if len(leaf.shape) == 1 else Rows()), leaf.size


class Rows(nn.Module):
    """(B, ...) to (B, features), also for scalar observations (B,)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), -1)


class PixelScale(nn.Module):
    """uint8 pixels to floats in [0, 1]: images stay bytes until here."""

    def forward(self, x: Tensor) -> Tensor:
        return x.float() / 255.0


class ChannelsFirst(nn.Module):
    """(..., H, W, C) to (..., C, H, W)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.movedim(-1, -3)


class NatureCNN(nn.Sequential):
    """The three-convolution network of Mnih et al. 2015; images under 36 pixels get 3x3 kernels instead."""

    def __init__(self, shape: tuple[int, ...], init: str) -> None:
        channels_last = shape[-1] < shape[0] and shape[-1] <= 4
        c, h, w = (shape[2], shape[0], shape[1]) if channels_last else shape
        kernels = [(32, 8, 4), (64, 4, 2), (64, 3, 1)] if min(h, w) >= 36 else [(32, 3, 1), (64, 3, 1)]
        layers: list[nn.Module] = [ChannelsFirst()] if channels_last else []
        layers.append(PixelScale())
        for out, kernel, stride in kernels:
            layers += [_convolution(nn.Conv2d(c, out, kernel, stride), init), nn.ReLU()]
            c, h, w = out, (h - kernel) // stride + 1, (w - kernel) // stride + 1
        layers += [nn.Flatten(), initialize(nn.Linear(c * h * w, IMAGE_FEATURES), init, math.sqrt(2.0)), nn.ReLU()]
        super().__init__(*layers)


def _convolution(layer: nn.Conv2d, init: str) -> nn.Conv2d:
    if init == "orthogonal":
        nn.init.orthogonal_(layer.weight, math.sqrt(2.0))
        assert layer.bias is not None
        nn.init.zeros_(layer.bias)
    return layer


class DictEncoder(nn.Module):
    """Encodes every leaf and concatenates."""

    def __init__(self, keys: list[str], encoders: list[nn.Module]) -> None:
        super().__init__()
        self.keys, self.encoders = keys, nn.ModuleList(encoders)

    def forward(self, obs: dict[str, Any]) -> Tensor:
        return torch.cat([encoder(obs[key]) for key, encoder in zip(self.keys, self.encoders)], -1)


def beside(features: Tensor, actions: Tensor) -> Tensor:
    """States' features (B, F) with an action each, (B, A) -> (B, F + A), or with several, (B, n, A) -> (B, n, F + A)."""
    if actions.ndim > features.ndim:
        features = features.unsqueeze(1).expand(-1, actions.shape[1], -1)
    return torch.cat([features, actions], -1)
