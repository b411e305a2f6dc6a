"""What a dataset command knows of the environment: the spaces its data must fit, and when episodes are cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rl_training.errors import UserError

if TYPE_CHECKING:
    from typing import Any

    import gymnasium as gym

    from rl_training.data.formats import Expected


class Known(NamedTuple):
    """`limit` is None where episodes are not cut, or nothing is known of the environment."""

    env_id: str | None
    expected: Expected
    action_space: gym.Space[Any] | None
    limit: int | None
    note: str = ""


def know(env_id: str | None, stored: str | None) -> Known:
    """Of the environment that the user names, else of the one that the data name, where it can be made here."""
    from rl_training.data.formats import Expected
    from rl_training.envs.custom import is_custom

    if env_id is not None:
        return _ask(env_id)
    if stored is None:
        return Known(None, Expected(), None, None)
    if is_custom(stored):  # a file of data must not decide which code runs
        return Known(stored, Expected(), None, None, f"{stored} is code, which runs only when you name it: --env {stored}")
    try:
        return _ask(stored)
    except UserError as error:
        return Known(stored, Expected(), None, None, f"{stored} cannot be made here ({error.what}), so its bounds are unknown")


def stored_env(path_or_id: str) -> str | None:
    """The environment that a dataset says it is of; None where it says nothing. Its data are not read."""
    from pathlib import Path

    from rl_training.data.formats.native import MANIFEST, read_manifest

    if path_or_id.startswith("minari:"):
        from rl_training.data.formats.minari import env_of_minari

        return env_of_minari(path_or_id.removeprefix("minari:"))
    if (Path(path_or_id) / MANIFEST).is_file():
        found: str | None = read_manifest(Path(path_or_id))["env_id"]
        return found
    return None


def _ask(env_id: str) -> Known:
    import gymnasium as gym

    from rl_training.config import TrainConfig
    from rl_training.data.formats import Expected
    from rl_training.experiment.envs import spaces_of
    from rl_training.specs import action_spec, obs_spec

    observation, action, frames = spaces_of(TrainConfig(algo="ppo", env_id=env_id), None)  # PPO takes every kind of action
    low, high = (action.low, action.high) if isinstance(action, gym.spaces.Box) else (None, None)
    spec = gym.registry.get(env_id)
    expected = Expected(obs_spec(observation, frames), action_spec(action), low, high)
    return Known(env_id, expected, action, None if spec is None else spec.max_episode_steps)
