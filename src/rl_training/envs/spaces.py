"""Translate between what environments speak and the canonical form of `rl_training.specs`.

Both translators are built once per space, so a step costs a few array operations and looks at no space.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np

from rl_training.errors import ConfigError
from rl_training.specs import ObsSpec, obs_spec

Convert: TypeAlias = Callable[[Any], np.ndarray]


class ObsTranslator:
    """Batched observations of a space -> an array, or a flat dict of arrays with dotted keys."""

    def __init__(self, space: gym.Space[Any]) -> None:
        self.spec: ObsSpec = obs_spec(space)
        self._parts: list[tuple[tuple[Any, ...], Convert]] = []
        self._walk(space, ())

    def _walk(self, space: gym.Space[Any], path: tuple[Any, ...]) -> None:
        if isinstance(space, gym.spaces.Dict):
            for name, part in space.spaces.items():
                self._walk(part, (*path, name))
        elif isinstance(space, gym.spaces.Tuple):
            for index, part in enumerate(space.spaces):
                self._walk(part, (*path, index))
        else:
            self._parts.append((path, _converter(space)))

    def batch(self, obs: Any) -> Any:
        """Translate the observations of all sub-environments."""
        if not self.spec.is_dict:
            return self._parts[0][1](obs)
        return self.spec.build([convert(_at(obs, path)) for path, convert in self._parts])

    def write_row(self, target: Any, index: int, one: Any) -> None:
        """Put the observation of one sub-environment into row `index` of canonical arrays."""
        for array, (path, convert) in zip(self.spec.arrays(target), self._parts):
            array[index] = convert(np.asarray(_at(one, path))[None])[0]

    def copy(self, obs: Any) -> Any:
        """A copy of canonical observations."""
        return self.spec.build([array.copy() for array in self.spec.arrays(obs)])


def _at(obs: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        obs = obs[key]
    return obs


def _converter(space: gym.Space[Any]) -> Convert:
    if isinstance(space, gym.spaces.Box):
        if space.dtype == np.float32 or (space.dtype == np.uint8 and len(space.shape) == 3):
            return _same
        return _to_float32
    if isinstance(space, gym.spaces.Discrete):
        return _one_hot(np.array([space.n]), np.array([space.start]))
    if isinstance(space, gym.spaces.MultiDiscrete):
        return _one_hot(space.nvec.ravel(), space.start.ravel())
    return _to_float32  # MultiBinary; obs_spec has refused every other space


def _same(values: np.ndarray) -> np.ndarray:
    return values


def _to_float32(values: Any) -> np.ndarray:
    return np.asarray(values).astype(np.float32)


def _one_hot(nvec: np.ndarray, start: np.ndarray) -> Convert:
    # Columns of one long zero matrix: entry k of value v sets column offsets[k] + v.
    offsets = np.concatenate([[0], np.cumsum(nvec)[:-1]]) - start
    width = int(nvec.sum())

    def convert(values: Any) -> np.ndarray:
        columns = np.asarray(values).reshape(len(values), -1) + offsets
        out = np.zeros((len(columns), width), np.float32)
        np.put_along_axis(out, columns, 1.0, axis=1)
        return out

    return convert


def action_translator(space: gym.Space[Any], num_envs: int) -> Convert:
    """A function from canonical actions (N, ...) to what `step` of a vector environment takes."""
    if isinstance(space, gym.spaces.Discrete):
        return _same if space.start == 0 else _shift(np.asarray(space.start), (num_envs,), space.dtype)
    if isinstance(space, gym.spaces.MultiDiscrete):
        return _shift(space.start, (num_envs, *space.shape), space.dtype)
    if isinstance(space, gym.spaces.MultiBinary):
        return _shift(np.asarray(0), (num_envs, *space.shape), space.dtype)
    assert isinstance(space, gym.spaces.Box)  # action_spec has refused every other space
    return _affine(space, num_envs)


def _shift(start: np.ndarray, shape: tuple[int, ...], dtype: Any) -> Convert:
    def convert(actions: np.ndarray) -> np.ndarray:
        return np.asarray(actions.reshape(shape) + start, dtype)

    return convert


def _affine(space: gym.spaces.Box, num_envs: int) -> Convert:
    """[-1, 1] to the bounds, after clipping to [-1, 1]. Dimensions without two finite bounds pass through unscaled."""
    low, high = space.low.ravel().astype(np.float32), space.high.ravel().astype(np.float32)
    bounded = np.isfinite(low) & np.isfinite(high)
    scale, bias = np.ones_like(low), np.zeros_like(low)
    scale[bounded] = (high[bounded].astype(np.float64) - low[bounded]) / 2
    bias[bounded] = (high[bounded].astype(np.float64) + low[bounded]) / 2
    # Rounding must not lead outside the bounds; products and sums are monotonic, so only the two ends need a look.
    while (over := bounded & ((scale + bias > high) | (bias - scale < low))).any():
        scale[over] = np.nextafter(scale[over], np.float32(0))
    lowest, highest = np.where(bounded, np.float32(-1), low), np.where(bounded, np.float32(1), high)
    identity = bool((scale == 1).all() and (bias == 0).all())
    shape, dtype = (num_envs, *space.shape), space.dtype
    whole = np.issubdtype(dtype, np.integer)
    flat = len(space.shape) == 1 and dtype == np.float32

    def convert(actions: np.ndarray) -> np.ndarray:
        out: np.ndarray = np.minimum(np.maximum(actions, lowest), highest)
        if not identity:
            out *= scale
            out += bias
        return out if flat else np.asarray((np.rint(out) if whole else out).reshape(shape), dtype)

    return convert


def is_batch(obs: Any, space: gym.Space[Any]) -> bool:
    """Whether `obs` has one axis more than the space; ConfigError when it fits neither way."""
    if isinstance(space, gym.spaces.Dict):
        key = next(iter(space.spaces))
        return is_batch(obs[key], space.spaces[key])
    if isinstance(space, gym.spaces.Tuple):
        return is_batch(obs[0], space.spaces[0])
    shape, wanted = np.shape(obs), space.shape or ()
    if shape == wanted or (len(shape) == len(wanted) + 1 and shape[1:] == wanted):
        return shape != wanted
    raise ConfigError(
        f"The observation has shape {shape}; this agent was trained on {wanted}.",
        fix=f"Give one observation of shape {wanted}, or a batch of shape (n, {', '.join(map(str, wanted))})",
    )


def add_axis(obs: Any) -> Any:
    """One observation as a batch of one."""
    if isinstance(obs, dict):
        return {key: add_axis(value) for key, value in obs.items()}
    if isinstance(obs, tuple):
        return tuple(add_axis(value) for value in obs)
    return np.asarray(obs)[None]
