"""The part that all native environments share: spaces, buffers, seeding, same-step autoreset and exact state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from rl_training.errors import ConfigError, EnvError
from rl_training.state import Tree

# The exponent of squares, for kernels to take as an argument. Unknown to the compiler, `x**two` stays a call of the C
# library's pow, as in Gymnasium; x * x differs from it in the last bit about once in a thousand times, so runs
# would not stay equal.
SQUARE = 2.0


class NativeVectorEnv(gym.vector.VectorEnv[Any, Any, Any], ABC):
    """Many copies of one environment, stepped by one call of a compiled kernel that writes into fixed arrays.

    A run equals `SyncVectorEnv(..., autoreset_mode=SAME_STEP)` of `gymnasium.make(env_id)` with the same seed and the
    same actions (of the action space's dtype): every sub-environment has its own generator, seeded and drawn from as
    Gymnasium does, and physics is computed in the same precision and order. There is no rendering.
    """

    env_id: ClassVar[str]
    state_size: ClassVar[int]
    # Called as kernel(*self._arguments): steps all environments and returns how many episodes ended, or -1 without
    # having changed anything when a discrete action is out of range.
    kernel: ClassVar[Callable[..., int]]
    # Numbers the kernel takes after the common arguments.
    constants: ClassVar[tuple[float, ...]] = ()

    def __init__(self, num_envs: int, *, copy: bool = True) -> None:
        if num_envs < 1:
            raise ConfigError(f"{self.env_id}: num_envs = {num_envs} is not possible.", fix="Use at least 1.")
        with gym.make(self.env_id) as template:
            self.spec = template.spec
            self.single_observation_space = template.observation_space
            self.single_action_space = template.action_space
        self.metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}
        self.num_envs = num_envs
        self.copy = copy
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        assert self.spec is not None and self.spec.max_episode_steps is not None  # true of every registered native id

        self._generators = [seeding.np_random()[0] for _ in range(num_envs)]
        self._started = False
        self._actions = np.zeros(self.action_space.shape or (), self.action_space.dtype)
        self._state = np.zeros((num_envs, self.state_size))
        self._obs = np.zeros(self.observation_space.shape or (), np.float32)
        self._reward = np.zeros(num_envs)
        self._terminated = np.zeros(num_envs, np.bool_)
        self._truncated = np.zeros(num_envs, np.bool_)
        self._elapsed = np.zeros(num_envs, np.int64)
        # The arrays live as long as the environment and are only ever written in place, so this tuple stays valid.
        self._arguments = (
            self._actions,
            self._state,
            self._obs,
            self._reward,
            self._terminated,
            self._truncated,
            self._elapsed,
            self.spec.max_episode_steps,
            *self.constants,
        )

    @abstractmethod
    def initial_state(self, generator: np.random.Generator, options: dict[str, Any] | None) -> np.ndarray:
        """Draw the state of a new episode: the draws of Gymnasium's `reset`, with the same options."""

    def observe(self, state: np.ndarray) -> np.ndarray:
        """The observation of an initial state. (Later observations are the kernel's.)"""
        return state

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a new episode everywhere, or where `options["reset_mask"]` is true.

        An int seeds sub-environment i with `seed + i`, a list gives one seed each, None lets the generators go on.
        """
        if isinstance(seed, int):
            seed = [seed + i for i in range(self.num_envs)]
        elif seed is not None and len(seed) != self.num_envs:
            raise EnvError(
                f"{self.env_id}: reset got {len(seed)} seeds for {self.num_envs} environments.",
                fix="Give one seed for each environment, or a single int.",
            )
        mask = np.asarray((options or {}).get("reset_mask", np.ones(self.num_envs, np.bool_)))
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
            raise EnvError(
                f"{self.env_id}: reset_mask has shape {mask.shape} and dtype {mask.dtype}.",
                fix=f"Give a bool array of shape ({self.num_envs},).",
            )
        for index in np.flatnonzero(mask).tolist():
            if seed is not None and (own_seed := seed[index]) is not None:
                self._generators[index] = seeding.np_random(own_seed)[0]
            self._begin_episode(index, options)
        self._started = self._started or bool(mask.all())
        return (self._obs.copy() if self.copy else self._obs), {}

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step every environment; one that ends starts its next episode at once.

        `infos` is empty unless an episode ended. Then `infos["final_obs"]` holds every environment's true successor
        (the observation returned, where none ended) and `infos["_final_obs"]` says where one ended.
        """
        if not self._started:
            raise EnvError(f"{self.env_id}: step was called before reset.", fix="Call reset() first.")
        try:
            # A wrong shape must not broadcast, and "same_kind" refuses to truncate a float to a discrete action.
            if np.shape(actions) != self._actions.shape:
                raise ValueError
            np.copyto(self._actions, actions, casting="same_kind")
        except (TypeError, ValueError):
            raise self._wrong_actions(actions) from None
        ended = self.kernel(*self._arguments)
        infos: dict[str, Any] = {}
        if ended:
            if ended < 0:
                raise self._wrong_actions(actions)
            done = self._terminated | self._truncated
            infos = {"final_obs": self._obs.copy(), "_final_obs": done}
            for index in np.flatnonzero(done).tolist():
                self._begin_episode(index, None)
        if self.copy:
            return self._obs.copy(), self._reward.copy(), self._terminated.copy(), self._truncated.copy(), infos
        return self._obs, self._reward, self._terminated, self._truncated, infos

    def _begin_episode(self, index: int, options: dict[str, Any] | None) -> None:
        state = self.initial_state(self._generators[index], options)
        self._state[index] = state
        self._obs[index] = self.observe(state)
        self._elapsed[index] = 0

    def _wrong_actions(self, actions: Any) -> EnvError:
        return EnvError(
            f"{self.env_id}: the actions {actions!r} are invalid.",
            f"Expected shape {self._actions.shape} of {self.single_action_space}, dtype {self._actions.dtype}.",
            "Pass one action of the single action space for each environment.",
        )

    def state_dict(self) -> dict[str, Tree]:
        """Everything that decides the future; loaded into an env of the same id and size, it continues bit for bit."""
        return {
            "env_id": self.env_id,
            "started": self._started,
            "state": self._state.copy(),
            "obs": self._obs.copy(),
            "elapsed": self._elapsed.copy(),
            "generators": [generator.bit_generator.state for generator in self._generators],
        }

    def load_state_dict(self, state: dict[str, Tree]) -> None:
        """Continue from a `state_dict()`."""
        saved = (state["env_id"], len(state["generators"]))
        if saved != (self.env_id, self.num_envs):
            raise ConfigError(
                f"The saved state is of {saved[1]} x {saved[0]}; this is {self.num_envs} x {self.env_id}.",
                fix="Load it with the environment id and num_envs it was saved with.",
            )
        self._started = bool(state["started"])
        self._state[...] = state["state"]
        self._obs[...] = state["obs"]
        self._elapsed[...] = state["elapsed"]
        for generator, saved_generator in zip(self._generators, state["generators"], strict=True):
            generator.bit_generator.state = saved_generator
