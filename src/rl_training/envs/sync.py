"""A `SyncVectorEnv` whose step does only what is needed: its overhead is a fraction of the generic one's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import concatenate, iterate

from rl_training.envs.failures import EpisodeClock, env_failure
from rl_training.errors import EnvError, UserError


class LeanSyncVectorEnv(gym.vector.SyncVectorEnv[Any, Any]):
    """Steps sub-environments one after the other in this process; an ended one is reset within the same step.

    Observations, rewards and flags are those of `SyncVectorEnv(..., autoreset_mode=SAME_STEP)`. `infos` is empty unless
    an episode ended; then it holds `final_obs`, `final_info` and their masks `_final_obs`, `_final_info`. (The infos of
    running episodes are not gathered: doing so costs more than many environments.) An exception in a sub-environment
    becomes an EnvError that says which one, and how to reproduce it.
    """

    def __init__(self, env_fns: Sequence[Callable[[], gym.Env[Any, Any]]], copy: bool = True) -> None:
        super().__init__(env_fns, copy=copy, autoreset_mode=AutoresetMode.SAME_STEP)
        self._is_box = isinstance(self.single_observation_space, gym.spaces.Box)
        self._shape = self.single_observation_space.shape
        self._array_actions = isinstance(self.single_action_space, gym.spaces.Box | gym.spaces.Discrete)
        self._clock = EpisodeClock(self.num_envs)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        options = dict(options or {})
        mask = options.pop("reset_mask", np.ones(self.num_envs, np.bool_))
        seeds = self._clock.reset(seed, mask)
        infos: dict[str, Any] = {}
        for index in map(int, np.flatnonzero(mask)):
            try:
                one, info = self.envs[index].reset(seed=seeds[index], options=options or None)
                self._put(index, one)
            except Exception as error:
                self._fail(index, None, error)
            self._terminations[index] = self._truncations[index] = False
            infos = self._add_info(infos, info, index)
        return self._batched(), infos

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        rewards, terminations, truncations = self._rewards, self._terminations, self._truncations
        is_box, obs, shape = self._is_box, self._observations, self._shape
        one_by_one = actions if self._array_actions else iterate(self.action_space, actions)
        ended: list[tuple[int, Any, dict[str, Any]]] = []
        self._clock.steps += 1
        terminations.fill(False)
        truncations.fill(False)
        index, action = 0, None
        try:
            for index, (env, action) in enumerate(zip(self.envs, one_by_one, strict=True)):
                one, rewards[index], terminated, truncated, info = env.step(action)
                if terminated or truncated:
                    terminations[index], truncations[index] = terminated, truncated
                    ended.append((index, one, info))
                    one, _ = env.reset()
                    self._clock.began(index)
                if is_box and one.__class__ is np.ndarray and one.shape == shape:
                    obs[index] = one
                else:
                    self._put(index, one)
        except Exception as error:
            self._fail(index, action, error)
        infos = self._final(ended) if ended else {}
        if self.copy:
            return self._batched(), rewards.copy(), terminations.copy(), truncations.copy(), infos
        return self._batched(), rewards, terminations, truncations, infos

    def _put(self, index: int, one: Any) -> None:
        """Place one observation; an array of another shape would broadcast silently, so it is refused."""
        if not self._is_box:
            self._env_obs[index] = one
        elif np.shape(one) == self._shape:
            self._observations[index] = one
        else:
            raise EnvError(
                f"env {index} returned an observation of shape {np.shape(one)}; observation_space says {self._shape}.",
                fix="Correct observation_space or the value returned by step and reset; see: rl-training check-env",
            )

    def _batched(self) -> Any:
        if self._is_box:
            return self._observations.copy() if self.copy else self._observations
        self._observations = concatenate(self.single_observation_space, self._env_obs, self._observations)
        return deepcopy(self._observations) if self.copy else self._observations

    def _final(self, ended: list[tuple[int, Any, dict[str, Any]]]) -> dict[str, Any]:
        final_obs, mask = np.full(self.num_envs, None, dtype=object), np.zeros(self.num_envs, np.bool_)
        final_info: dict[str, Any] = {}
        for index, one, info in ended:
            final_obs[index], mask[index] = one, True
            final_info = self._add_info(final_info, info, index)
        return {"final_obs": final_obs, "_final_obs": mask, "final_info": final_info, "_final_info": mask.copy()}

    def _fail(self, index: int, action: Any, error: Exception) -> NoReturn:
        if isinstance(error, UserError):
            raise error
        name = type(self.envs[index].unwrapped).__name__
        raise env_failure(name, index, self.num_envs, self._clock.where(index), action, error) from error
