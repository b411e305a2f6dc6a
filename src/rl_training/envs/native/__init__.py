"""Classic-control environments stepped all at once by one compiled kernel, equal to Gymnasium's step by step.

Importing this package is cheap: the compiler is loaded by the first `make_native`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from rl_training.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from rl_training.envs.native.base import NativeVectorEnv

_CLASSES = {
    "Acrobot-v1": ("acrobot", "Acrobot"),
    "CartPole-v1": ("cartpole", "CartPole"),
    "MountainCar-v0": ("mountain_car", "MountainCar"),
    "MountainCarContinuous-v0": ("mountain_car", "MountainCarContinuous"),
    "Pendulum-v1": ("pendulum", "Pendulum"),
}

NATIVE_IDS: tuple[str, ...] = tuple(_CLASSES)


def make_native(env_id: str, num_envs: int, *, copy: bool = True) -> NativeVectorEnv:
    """Make `num_envs` environments of `env_id` (one of `NATIVE_IDS`) as one Gymnasium vector env, same-step autoreset.

    With `copy=False`, `reset` and `step` return their internal arrays, which the next call overwrites.
    """
    if env_id not in _CLASSES:
        raise ConfigError(
            f"There is no native environment {env_id!r}.",
            f"Native: {', '.join(NATIVE_IDS)}.",
            did_you_mean(env_id, NATIVE_IDS) or f'Make it with gymnasium.make_vec("{env_id}") instead.',
        )
    module, name = _CLASSES[env_id]
    env_class: type[NativeVectorEnv] = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    return env_class(num_envs, copy=copy)
