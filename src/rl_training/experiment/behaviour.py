"""What may act for a collector besides a trained agent: any function of observations, and any of them with random steps."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rl_training.data.batch import tree_map
from rl_training.data.formats import Expected, actions
from rl_training.envs.custom import load_function
from rl_training.envs.scripted import Controller
from rl_training.errors import ConfigError
from rl_training.specs import action_spec

Array = NDArray[Any]


class Chooses(Protocol):
    """The part of a policy that a collector calls."""

    def choose(self, outputs: Array, rng: np.random.Generator, step: int, explore: bool) -> Array: ...


class Acts(Protocol):
    """What a collector needs of an actor."""

    @property
    def policy(self) -> Chooses: ...
    def refresh(self) -> None: ...
    def outputs(self, obs: Any, rng: np.random.Generator | None = None) -> Array: ...


class FunctionActor:
    """Acts by a function of one observation, whose actions are in the units of `space`; those outside are clipped to it."""

    def __init__(self, function: Controller, space: gym.Space[Any], name: str) -> None:
        self.function, self.space, self.name = function, space, name
        self.start = space.start if isinstance(space, gym.spaces.Discrete | gym.spaces.MultiDiscrete) else 0
        bounds = (space.low, space.high) if isinstance(space, gym.spaces.Box) else (None, None)
        self.expected = Expected(None, action_spec(space), *bounds)

    @property
    def policy(self) -> FunctionActor:
        return self

    def refresh(self) -> None:
        """There is nothing that learns."""

    def outputs(self, obs: Any, rng: np.random.Generator | None = None) -> Any:
        return obs

    def choose(self, outputs: Any, rng: np.random.Generator, step: int, explore: bool) -> Array:
        # A copy: the environment reuses its arrays, and the function may keep or change what it gets.
        action = np.asarray(self.function(tree_map(lambda a: np.array(a[0]), outputs), rng))
        if isinstance(self.space, gym.spaces.Box) and action.shape == self.space.shape:
            action = np.clip(action, self.space.low, self.space.high)  # as the environment would
        try:
            return actions(self.name, "action", (action - self.start)[None], 1, self.expected)
        except (ConfigError, TypeError) as error:
            raise ConfigError(
                f"{self.name} returned {action!r} as an action.",
                error.what if isinstance(error, ConfigError) else str(error),
                f"Return what the environment's step takes: {self.space}",
            ) from error


class NoisyActor:
    """Another actor whose action is replaced, with a probability, by a uniformly random one."""

    def __init__(self, actor: Acts, probability: float, sample: Callable[[np.random.Generator], Array]) -> None:
        self.actor, self.probability, self.sample = actor, probability, sample

    @property
    def policy(self) -> NoisyActor:
        return self

    def refresh(self) -> None:
        self.actor.refresh()

    def outputs(self, obs: Any, rng: np.random.Generator | None = None) -> Array:
        return self.actor.outputs(obs, rng)

    def choose(self, outputs: Array, rng: np.random.Generator, step: int, explore: bool) -> Array:
        chosen = self.actor.policy.choose(outputs, rng, step, explore)
        return self.sample(rng) if rng.random() < self.probability else chosen


def user_controller(name: str) -> Controller:
    """The function that `file:my_policy.py:function` names: one observation in, an action in the environment's units out."""
    function = load_function(name)

    def act(obs: Any, rng: np.random.Generator) -> Any:
        try:
            return function(obs)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            raise ConfigError(
                f"{name} failed: {type(error).__name__}: {error}",
                f"At {where.filename}:{where.lineno}: {where.line}",
                "It is called with one observation, as datasets hold them, and returns one action.",
            ) from error

    return act
