"""Writing Minari datasets, by the minari package."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rl_training.data.batch import concatenated, tree_map
from rl_training.data.dataset import Dataset
from rl_training.data.formats.minari import folder_of, require_minari
from rl_training.envs.spaces import action_translator
from rl_training.errors import ConfigError
from rl_training.specs import ActionSpec


def write_minari(
    dataset: Dataset, dataset_id: str, action: ActionSpec | None = None, action_space: gym.Space[Any] | None = None
) -> None:
    """Make a local Minari dataset of every step.

    With the `action_space` of the environment that the dataset names, actions are in its units and the environment is noted;
    without, continuous actions are in [-1, 1]. `action` says how many choices there are; without it, the largest stored one is
    taken to be the last. Inside an episode each observation must be the successor of the row before, as Minari stores it once.
    """
    minari = require_minari("Writing Minari datasets")
    if (folder := folder_of(dataset_id)).exists():
        raise ConfigError(f"{folder} exists already.", "Nothing is overwritten.", "Choose another name or version.")
    actions, space = dataset.action, _action_space(dataset.action, action)
    if isinstance(action_space, gym.spaces.Box):
        actions, space = action_translator(action_space, len(dataset))(actions), action_space
    starts = dataset.episode_starts()
    ends = np.append(starts[1:], len(dataset))
    buffers = [_buffer(dataset, actions, start, end) for start, end in zip(starts, ends)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about the optional description of who made it and how
        minari.create_dataset_from_buffers(
            dataset_id,
            buffers,
            env=None if action_space is None else gym.registry.get(dataset.env_id or ""),
            observation_space=_observation_space(dataset.obs),
            action_space=space,
            jpeg_encoding=False,
        )


def _buffer(dataset: Dataset, actions: NDArray[Any], start: int, end: int) -> Any:
    from minari.data_collector import EpisodeBuffer

    rows = slice(start, end)
    last = tree_map(lambda a: a[end - 1 : end], dataset.next_obs)
    return EpisodeBuffer(
        observations=concatenated([tree_map(lambda a: a[rows], dataset.obs), last]),
        actions=actions[rows],
        rewards=dataset.reward[rows],
        terminations=dataset.terminated[rows],
        truncations=dataset.truncated[rows] & ~dataset.terminated[rows],
        infos={},
    )


def _observation_space(obs: Any) -> gym.Space[Any]:
    if isinstance(obs, dict):
        return gym.spaces.Dict({key: _observation_space(part) for key, part in obs.items()})
    if obs.dtype == np.uint8:
        return gym.spaces.Box(0, 255, obs.shape[1:], np.uint8)
    return gym.spaces.Box(-np.inf, np.inf, obs.shape[1:], np.float32)


def _action_space(action: NDArray[Any], spec: ActionSpec | None) -> gym.Space[Any]:
    if action.dtype == np.float32:
        return gym.spaces.Box(-1.0, 1.0, action.shape[1:], np.float32)
    choices = [int(n) for n in (spec.nvec if spec else action.reshape(len(action), -1).max(0) + 1)]
    return gym.spaces.Discrete(choices[0]) if action.ndim == 1 else gym.spaces.MultiDiscrete(choices)
