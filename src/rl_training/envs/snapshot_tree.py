"""Python objects -> trees of JSON values and arrays, without pickle; `snapshot_reader` is the way back.

Values that cannot be written (renderers, simulator handles, functions) are *kept*: loading leaves what the newly built
environment has there. Whether that is right for an environment is not assumed here but measured by `probe`.
"""

from __future__ import annotations

import math
import random
from collections import deque
from enum import Enum
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from rl_training.state import Tree


class CannotWriteError(TypeError):
    """A value that has no form as a tree."""


class TreeWriter:
    """Objects -> tree. Those of the packages of `roots` are walked by attribute; shared ones are written once."""

    def __init__(self, roots: list[Any]) -> None:
        self._packages = {package_of(type(root)) for root in roots}
        self._ids: dict[int, int] = {id(root): index for index, root in enumerate(roots)}
        self._alive: list[Any] = list(roots)  # an id is only unique while its object lives

    def attributes(self, obj: Any, skip: frozenset[str] = frozenset()) -> dict[str, Tree]:
        """The attributes of `obj` as a tree, with the names of those that could not be written."""
        values: dict[str, Tree] = {}
        kept: list[str] = []
        for name, value in vars(obj).items():
            if name in skip:
                continue
            known = len(self._alive)
            try:
                values[name] = self.value(value)
            except CannotWriteError:
                kept.append(name)
                for lost in self._alive[known:]:
                    del self._ids[id(lost)]
                del self._alive[known:]
        return {"values": values, "kept": kept}

    def value(self, value: Any) -> Tree:
        """One value as a tree."""
        if value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value)):
            return value
        if id(value) in self._ids:
            return {"kind": "same", "id": self._ids[id(value)]}
        if isinstance(value, gym.Space):
            return {"kind": "space", "value": [_generator_state(part._np_random) for part in subspaces(value)]}
        if isinstance(value, np.random.Generator):
            return self._mutable(value, "generator", value.bit_generator.state)
        if isinstance(value, np.random.RandomState):
            return self._mutable(value, "random_state", value.get_state(legacy=False))
        if isinstance(value, random.Random):
            version, numbers, gauss = value.getstate()
            return self._mutable(value, "random", [version, list(numbers), gauss])
        if isinstance(value, np.ndarray) and value.dtype != object:
            return self._mutable(value, "array", value.copy())
        if isinstance(value, np.generic):
            return {"kind": "scalar", "value": np.asarray(value)}
        return self._container(value)

    def _container(self, value: Any) -> Tree:
        if type(value) is float:
            return {"kind": "float", "value": repr(value)}
        if isinstance(value, bytes):
            return {"kind": "bytes", "value": np.frombuffer(value, np.uint8).copy()}
        if isinstance(value, Enum):
            return {"kind": "enum", "class": self._class(value), "value": value.name}
        name = type(value).__name__
        if type(value) in (tuple, frozenset):
            return {"kind": name, "value": [self.value(item) for item in value]}
        tag = self._tag(value)
        if type(value) is dict:
            return {"kind": "dict", **tag, "value": [[self.value(k), self.value(v)] for k, v in value.items()]}
        if type(value) in (list, set):
            return {"kind": name, **tag, "value": [self.value(item) for item in value]}
        if isinstance(value, deque):
            return {"kind": "deque", **tag, "maxlen": value.maxlen, "value": [self.value(item) for item in value]}
        if isinstance(value, np.ndarray):
            return {
                "kind": "objects",
                **tag,
                "shape": list(value.shape),
                "value": [self.value(v) for v in value.ravel()],
            }
        if isinstance(value, gym.Env | EnvSpec | type) or not hasattr(value, "__dict__"):
            raise CannotWriteError(name)
        return {"kind": "object", **tag, "class": self._class(value), **self.attributes(value)}

    def _mutable(self, value: Any, kind: str, content: Tree) -> Tree:
        return {"kind": kind, **self._tag(value), "value": content}

    def _tag(self, value: Any) -> dict[str, int]:
        self._ids[id(value)] = len(self._alive)
        self._alive.append(value)
        return {"id": self._ids[id(value)]}

    def _class(self, value: Any) -> str:
        if package_of(type(value)) not in self._packages:
            raise CannotWriteError(type(value).__name__)
        return f"{type(value).__module__}:{type(value).__qualname__}"


def package_of(cls: type) -> str:
    return cls.__module__.partition(".")[0]


def subspaces(space: Any) -> list[Any]:
    if isinstance(space, gym.spaces.Dict):
        return [space, *(deep for part in space.spaces.values() for deep in subspaces(part))]
    if isinstance(space, gym.spaces.Tuple):
        return [space, *(deep for part in space.spaces for deep in subspaces(part))]
    return [space] if isinstance(space, gym.Space) else []


def _generator_state(generator: np.random.Generator | None) -> Tree:
    return None if generator is None else generator.bit_generator.state
