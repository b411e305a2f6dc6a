"""What an environment looks like to the learning side: observation leaves and the kind of action.

Everything below `envs/` sees environments only through these two descriptions, so spaces are interpreted once, here.
Observations are an array (one leaf named "") or a flat dict of arrays; continuous actions live in [-1, 1].
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np

from rl_training.errors import ConfigError


@dataclass(frozen=True)
class Leaf:
    """One array of an observation: a float32 array or a uint8 image, perhaps a stack of frames along its first axis."""

    key: str
    shape: tuple[int, ...]
    dtype: str  # "float32" or "uint8"
    stack: int = 1  # frames along axis 0, newest last; each is then stored only once

    @property
    def is_image(self) -> bool:
        return self.dtype == "uint8"

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class ObsSpec:
    """The leaves of an observation, in a fixed order."""

    leaves: tuple[Leaf, ...]

    @property
    def is_dict(self) -> bool:
        return not (len(self.leaves) == 1 and self.leaves[0].key == "")

    @property
    def vector_size(self) -> int:
        return sum(leaf.size for leaf in self.leaves if not leaf.is_image)

    def arrays(self, obs: Any) -> list[Any]:
        """The leaves of `obs` in order, whether it is an array or a dict."""
        return [obs[leaf.key] for leaf in self.leaves] if self.is_dict else [obs]

    def build(self, arrays: list[Any]) -> Any:
        """The inverse of `arrays`."""
        return {leaf.key: a for leaf, a in zip(self.leaves, arrays)} if self.is_dict else arrays[0]


@dataclass(frozen=True)
class ActionSpec:
    """discrete: one of n. multidiscrete: one of each entry of nvec. continuous: a vector in [-1, 1]^dim."""

    kind: str  # "discrete", "multidiscrete" or "continuous"
    nvec: tuple[int, ...] = ()
    dim: int = 0

    @property
    def n(self) -> int:
        """Number of discrete actions (discrete only)."""
        return self.nvec[0]

    @property
    def shape(self) -> tuple[int, ...]:
        return () if self.kind == "discrete" else (len(self.nvec),) if self.kind == "multidiscrete" else (self.dim,)

    @property
    def dtype(self) -> str:
        return "float32" if self.kind == "continuous" else "int64"


def obs_spec(space: gym.Space[Any], stack: int = 1) -> ObsSpec:
    """Describe an observation space. Dict and Tuple become dotted keys; Discrete parts become one-hot vectors.

    `stack` says how many frames an image observation consists of.
    """
    leaves: list[Leaf] = []
    _walk(space, "", leaves)
    return ObsSpec(tuple(replace(leaf, stack=stack) if leaf.is_image else leaf for leaf in leaves))


def _walk(space: gym.Space[Any], key: str, leaves: list[Leaf]) -> None:
    if isinstance(space, gym.spaces.Dict):
        for name, part in space.spaces.items():
            _walk(part, f"{key}.{name}" if key else str(name), leaves)
    elif isinstance(space, gym.spaces.Tuple):
        for index, part in enumerate(space.spaces):
            _walk(part, f"{key}.{index}" if key else str(index), leaves)
    elif isinstance(space, gym.spaces.Box):
        image = space.dtype == np.uint8 and len(space.shape) == 3
        leaves.append(Leaf(key, tuple(space.shape), "uint8" if image else "float32"))
    elif isinstance(space, gym.spaces.Discrete):
        leaves.append(Leaf(key, (int(space.n),), "float32"))
    elif isinstance(space, gym.spaces.MultiDiscrete):
        leaves.append(Leaf(key, (int(space.nvec.sum()),), "float32"))
    elif isinstance(space, gym.spaces.MultiBinary):
        leaves.append(Leaf(key, tuple(space.shape), "float32"))
    else:
        raise ConfigError(
            f"Observation space {space} is not supported.",
            "Supported: Box, Discrete, MultiDiscrete, MultiBinary, and Dict or Tuple of these.",
            "Wrap the environment with gymnasium.wrappers.TransformObservation to give one of them.",
        )


def action_spec(space: gym.Space[Any]) -> ActionSpec:
    """Describe an action space; Box of any shape is flattened to a vector in [-1, 1]."""
    if isinstance(space, gym.spaces.Discrete):
        return ActionSpec("discrete", (int(space.n),))
    if isinstance(space, gym.spaces.MultiDiscrete):
        return ActionSpec("multidiscrete", tuple(int(n) for n in space.nvec.ravel()))
    if isinstance(space, gym.spaces.MultiBinary):
        return ActionSpec("multidiscrete", (2,) * int(np.prod(space.shape)))
    if isinstance(space, gym.spaces.Box):
        return ActionSpec("continuous", dim=int(np.prod(space.shape)))
    raise ConfigError(
        f"Action space {space} is not supported.",
        "Supported: Discrete, MultiDiscrete, MultiBinary and Box.",
        "Wrap the environment with gymnasium.wrappers.TransformAction to give one of them.",
    )
