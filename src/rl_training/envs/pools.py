"""Vector environments that other packages step in C++: ALE's own for Atari, and envpool."""

from __future__ import annotations

import importlib
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from rl_training.errors import ConfigError, MissingExtraError


def make_ale(env_id: str, num_envs: int, kwargs: dict[str, Any]) -> gym.vector.VectorEnv[Any, Any, Any]:
    """ALE's vector environment for `ALE/Game-v5`: 84x84 frames, stacked by 4, reset within the same step."""
    if not env_id.startswith("ALE/"):
        raise ConfigError(f"env.backend: ale steps Atari games only, not {env_id}.", fix="Use env.backend: auto")
    vector_env = _import("ale_py.vector_env", env_id, "atari")
    game = "".join(f"_{c.lower()}" if c.isupper() else c for c in env_id[4:].partition("-")[0]).lstrip("_")
    envs = vector_env.AtariVectorEnv(game, num_envs, autoreset_mode=AutoresetMode.SAME_STEP, **kwargs)
    assert isinstance(envs, gym.vector.VectorEnv)
    envs.__dict__["stack_num"] = kwargs.get("stack_num", 4)  # it does not tell, and frames are to be stored once
    return envs


def make_envpool(env_id: str, num_envs: int, kwargs: dict[str, Any]) -> gym.vector.VectorEnv[Any, Any, Any]:
    """envpool's version of `env_id`; envpool names Atari games without `ALE/`."""
    pool = _import("envpool", env_id, "envpool")
    name = env_id.removeprefix("ALE/")
    if name not in pool.list_all_envs():
        raise ConfigError(f"envpool has no environment {name}.", fix="Use env.backend: auto")
    return EnvpoolVectorEnv(pool, name, num_envs, kwargs)


class EnvpoolVectorEnv(gym.vector.VectorEnv[Any, Any, Any]):
    """envpool as a Gymnasium vector environment: next-step autoreset, and seeds only at construction."""

    def __init__(self, pool: Any, name: str, num_envs: int, kwargs: dict[str, Any]) -> None:
        self._pool, self._name, self._kwargs = pool, name, kwargs
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self._envs = self._build(None)
        self.single_observation_space = self._envs.observation_space
        self.single_action_space = self._envs.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def _build(self, seed: int | None) -> Any:
        seeded = {} if seed is None else {"seed": seed}
        return self._pool.make_gymnasium(self._name, num_envs=self.num_envs, **seeded, **self._kwargs)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._envs.close()
            self._envs = self._build(seed)
        obs, _ = self._envs.reset()
        return obs, {}

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        obs, reward, terminated, truncated, _ = self._envs.step(actions)
        return obs, reward, terminated, truncated, {}

    def close_extras(self, **kwargs: Any) -> None:
        self._envs.close()


def _import(module: str, env_id: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(repr(env_id), extra) from error
