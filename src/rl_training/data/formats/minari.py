"""Minari datasets, by the minari package: whole episodes with their true last observation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import gymnasium as gym
from numpy.typing import NDArray

from rl_training.data.batch import concatenated, tree_map
from rl_training.data.dataset import Dataset
from rl_training.data.formats import DAMAGE, Expected, actions, column, flags, observations, rewards, sha256
from rl_training.data.formats.d4rl import is_stored_here, link_refused, open_hdf5
from rl_training.data.formats.unchecked import unchecked
from rl_training.envs.spaces import ObsTranslator
from rl_training.errors import ConfigError, MissingExtraError, did_you_mean
from rl_training.specs import action_spec

MAX_METADATA_BYTES = 1 << 20

EpisodeReader: TypeAlias = Callable[[str, Any, ObsTranslator, gym.Space[Any], Expected], dict[str, Any]]


def read_minari(dataset_id: str, expected: Expected | None = None) -> Dataset:
    """All steps of a local Minari dataset: T rows for an episode of T steps, none lost.

    Actions are brought to [-1, 1] by the dataset's own action space unless `expected` has bounds. A step that is both a
    termination and a truncation counts as a termination; an episode with neither at its end counts as truncated there.
    """
    return _read(dataset_id, expected or Expected(), _episode)


def read_minari_unchecked(dataset_id: str, expected: Expected) -> Dataset:
    """The same with values as they are stored, however wrong; only lengths are checked."""
    return _read(dataset_id, expected, _unchecked_episode)


def _read(dataset_id: str, expected: Expected, episode_of: EpisodeReader) -> Dataset:
    minari = require_minari("Reading Minari datasets")
    where = f"minari:{dataset_id}"
    folder = _checked_data(minari, dataset_id)
    try:
        stored = minari.load_dataset(dataset_id)
        translator = ObsTranslator(stored.observation_space)
        space = stored.action_space
        env_spec = stored.env_spec
        episodes = [episode_of(where, one, translator, space, expected) for one in stored if len(one)]
    except ImportError as error:
        raise ConfigError(f"{where} needs another package to be read.", str(error)) from error
    except DAMAGE as error:
        raise ConfigError(
            f"{where} is damaged.", f"{type(error).__name__}: {error}", f"minari download --force {dataset_id}"
        ) from error
    if not episodes:
        raise ConfigError(f"{where} holds no transitions.", fix=f"minari download --force {dataset_id}")
    return Dataset(
        **{key: concatenated([episode[key] for episode in episodes]) for key in episodes[0]},
        name=dataset_id,
        sha256=sha256(folder),
        source=where,
        env_id=env_spec.id if env_spec else None,
    )


def env_of_minari(dataset_id: str) -> str | None:
    """The environment that a local dataset says it is of; its episodes are not read."""
    _checked_data(require_minari("Reading Minari datasets"), dataset_id)
    try:
        spec = json.loads((folder_of(dataset_id) / "data" / "metadata.json").read_bytes()).get("env_spec")
        found = json.loads(spec)["id"] if spec else None
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return found if isinstance(found, str) else None


def require_minari(task: str) -> Any:
    """The minari package, with what it needs to read and write."""
    try:
        import h5py  # noqa: F401 (minari imports it late, with an error of its own)
        import minari
    except ImportError:
        raise MissingExtraError(task, "minari") from None
    return minari


def folder_of(dataset_id: str) -> Path:
    """Where a local dataset of this name is, or would be."""
    from minari.dataset.minari_dataset import parse_dataset_id
    from minari.storage import get_dataset_path

    try:
        parse_dataset_id(dataset_id)
    except (ValueError, TypeError) as error:  # TypeError: no version
        raise ConfigError(
            f"{dataset_id!r} is not a name that Minari can use.", fix="A name looks like cartpole/expert-v0."
        ) from error
    return Path(get_dataset_path(dataset_id))


def _checked_data(minari: Any, dataset_id: str) -> Path:
    """The data folder, once it is known that reading it runs no code and follows no link out of it."""
    folder = folder_of(dataset_id) / "data"
    metadata_path = folder / "metadata.json"
    if not metadata_path.is_file():
        raise ConfigError(
            f"There is no Minari dataset {dataset_id} on this machine.",
            did_you_mean(dataset_id, minari.list_local_datasets()) or f"Looked in {folder}.",
            f"minari download {dataset_id}",
        )
    try:
        if metadata_path.stat().st_size > MAX_METADATA_BYTES:
            raise ValueError("it is larger than 1 MiB")
        metadata = json.loads(metadata_path.read_bytes())
        spaces = [metadata.get(key) for key in ("observation_space", "action_space")]
    except (ValueError, AttributeError, RecursionError) as error:
        again = f"minari download --force {dataset_id}"
        raise ConfigError(f"{metadata_path} is damaged.", str(error), again) from error
    if not all(isinstance(space, str) for space in spaces):
        raise ConfigError(
            f"{metadata_path} does not say the observation and action space.",
            "Minari would then import and start the environment named in the file; a dataset must not run code.",
            "Use a version of the dataset made by Minari 0.5 or later.",
        )
    if (file_path := folder / "main_data.hdf5").is_file():
        with open_hdf5(file_path) as file:
            # The first answer other than None ends the visit; raising inside it would not get through HDF5.
            link = file.visititems_links(lambda *found: None if is_stored_here(found[1]) else found)
        if link:
            raise link_refused(file_path, link[0])
    return folder


def _episode(
    where: str, episode: Any, translator: ObsTranslator, space: gym.Space[Any], expected: Expected
) -> dict[str, Any]:
    where, steps = f"{where} episode {episode.id}", len(episode)
    obs = observations(where, "observations", translator.batch(episode.observations), steps + 1, expected.obs)
    terminated = flags(where, "terminations", episode.terminations, steps)
    truncated = flags(where, "truncations", episode.truncations, steps) & ~terminated
    truncated[-1] = not terminated[-1]
    return {
        "obs": tree_map(lambda a: a[:-1], obs),
        "action": _actions(where, episode.actions, steps, space, expected),
        "reward": rewards(where, "rewards", episode.rewards, steps),
        "terminated": terminated,
        "truncated": truncated,
        "next_obs": tree_map(lambda a: a[1:], obs),
    }


def _unchecked_episode(
    where: str, episode: Any, translator: ObsTranslator, space: gym.Space[Any], expected: Expected
) -> dict[str, Any]:
    where, steps = f"{where} episode {episode.id}", len(episode)
    obs = tree_map(lambda a: column(where, "observations", a, steps + 1), translator.batch(episode.observations))
    columns = unchecked(
        where,
        {
            "obs": tree_map(lambda a: a[:-1], obs),
            "action": _from_zero(episode.actions, space),
            "reward": episode.rewards,
            "terminated": episode.terminations,
            "truncated": episode.truncations,
            "next_obs": tree_map(lambda a: a[1:], obs),
        },
        _bounds(where, space, expected),
    )
    columns["truncated"][-1] |= not columns["terminated"][-1]
    return columns


def _actions(where: str, values: Any, steps: int, space: gym.Space[Any], expected: Expected) -> NDArray[Any]:
    return actions(where, "actions", _from_zero(values, space), steps, _bounds(where, space, expected))


def _bounds(where: str, space: gym.Space[Any], expected: Expected) -> Expected:
    """What is expected of actions: the caller's bounds come first, since the policy acts through them."""
    own = action_spec(space)
    spec = expected.action or own
    if spec.kind != own.kind:
        raise ConfigError(f"{where}: actions are {own.kind}, and the environment takes {spec.kind} ones.")
    low, high = expected.action_low, expected.action_high
    if isinstance(space, gym.spaces.Box) and low is None:
        low, high = space.low, space.high
    return Expected(expected.obs, spec, low, high)


def _from_zero(values: Any, space: gym.Space[Any]) -> Any:
    return values - space.start if isinstance(space, gym.spaces.Discrete | gym.spaces.MultiDiscrete) else values
