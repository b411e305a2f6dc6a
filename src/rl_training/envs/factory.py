"""Make environments by name: one, or a vector of them on the backend of choice."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import warnings
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import gymnasium as gym
from gymnasium.error import DependencyNotInstalled

from rl_training.envs.custom import EnvFactory, is_custom, load_factory
from rl_training.envs.names import find_spec, missing_engine
from rl_training.envs.snapshot import CapturedEnv
from rl_training.errors import ConfigError, did_you_mean

EnvName: TypeAlias = str | EnvFactory
BACKENDS = ("auto", "sync", "async", "native", "envpool", "ale")


class EnvSettings(Protocol):
    """The part of a configuration that says how to run environments."""

    num_envs: int
    backend: str
    kwargs: dict[str, Any]


class HasEnv(Protocol):
    """What `make_vector_env` needs of a configuration."""

    @property
    def env_id(self) -> Any: ...  # an EnvName
    @property
    def env(self) -> Any: ...  # EnvSettings


def make_env(
    env_id: EnvName, *, kwargs: dict[str, Any] | None = None, render_mode: str | None = None
) -> gym.Env[Any, Any]:
    """One environment.

    `env_id` is a Gymnasium id (`CartPole-v1`, `ALE/Pong-v5`), `file:my_env.py:MyEnv`, `package.module:factory`, or any
    callable that returns a `gymnasium.Env`. `kwargs` go to its constructor.
    """
    arguments = dict(kwargs or {})
    if render_mode is not None:
        arguments["render_mode"] = render_mode
    if isinstance(env_id, str) and is_custom(env_id):
        found = load_factory(env_id)
        return _make_registered(found, arguments) if isinstance(found, str) else _call(found, env_id, arguments)
    return _make_registered(env_id, arguments) if isinstance(env_id, str) else _call(env_id, repr(env_id), arguments)


def make_vector_env(
    cfg: HasEnv, num_envs: int | None = None, *, copy: bool = True
) -> gym.vector.VectorEnv[Any, Any, Any]:
    """`num_envs` copies of the configured environment, stepped together; every backend resets an ended one at once.

    The default (`sync`) is a `gymnasium.vector.SyncVectorEnv`. With `copy=False` the returned arrays are reused by the
    next call: faster, for callers that copy what they keep.
    """
    count = cfg.env.num_envs if num_envs is None else num_envs
    kwargs = dict(cfg.env.kwargs)
    backend = "sync" if cfg.env.backend == "auto" else cfg.env.backend
    if backend not in BACKENDS:
        raise ConfigError(f"env.backend = '{backend}' is unknown. {did_you_mean(backend, BACKENDS)}".rstrip(),
                          fix=f"Choose one of: {', '.join(BACKENDS)}")  # fmt: skip
    if count < 1:
        raise ConfigError(f"env.num_envs = {count} is not possible.", fix="Use 1 or more.")
    if backend == "native":
        return _make_native(cfg.env_id, count, kwargs, copy)
    if backend in ("ale", "envpool"):
        from rl_training.envs import pools

        return (pools.make_ale if backend == "ale" else pools.make_envpool)(cfg.env_id, count, kwargs)
    makers: list[Callable[[], gym.Env[Any, Any]]] = [EnvMaker(cfg.env_id, kwargs)] * count
    if backend == "async":
        from rl_training.envs.workers import SupervisedAsyncVectorEnv

        return SupervisedAsyncVectorEnv(makers, copy=copy)
    from rl_training.envs.sync import LeanSyncVectorEnv

    return LeanSyncVectorEnv(makers, copy=copy)


def choose_backend(env_id: EnvName, backend: str, num_envs: int, kwargs: dict[str, Any]) -> str:
    """Resolve `auto`: our native version when there is one and no option is set, ALE's own for Atari, else `sync`."""
    if backend != "auto":
        return backend
    if isinstance(env_id, str) and not kwargs and _is_native(env_id):
        return "native"
    return "ale" if isinstance(env_id, str) and env_id.startswith("ALE/") else "sync"


class EnvMaker:
    """Builds one sub-environment; a class and not a closure, so that a worker process can be handed it."""

    def __init__(self, env_id: EnvName, kwargs: dict[str, Any]) -> None:
        self.env_id, self.kwargs = env_id, kwargs

    def __call__(self) -> gym.Env[Any, Any]:
        return CapturedEnv(make_env(self.env_id, kwargs=self.kwargs))


def _make_registered(env_id: str, arguments: dict[str, Any]) -> gym.Env[Any, Any]:
    # The wrapper that forbids stepping before a reset costs a call per step, and whoever steps here resets first.
    spec = dataclasses.replace(find_spec(env_id), order_enforce=False)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*is out of date.*")  # v4 beside v5 is the user's choice
            return gym.make(spec, disable_env_checker=True, **arguments)
    except (DependencyNotInstalled, ImportError) as error:
        raise missing_engine(spec, error) from error
    except TypeError as error:
        raise _bad_argument(error, env_id, arguments, spec.entry_point) from error


def _call(factory: EnvFactory, name: str, arguments: dict[str, Any]) -> gym.Env[Any, Any]:
    try:
        env = factory(**arguments)
    except TypeError as error:
        raise _bad_argument(error, name, arguments, factory) from error
    if not isinstance(env, gym.Env):
        raise ConfigError(
            f"{name} returned {type(env).__name__}, not a gymnasium.Env.",
            "Environments derive from gymnasium.Env (old gym and dm_control ones need a wrapper such as shimmy).",
        )
    return env


def _bad_argument(error: TypeError, name: str, arguments: dict[str, Any], factory: Any) -> Exception:
    """A ConfigError when the constructor refused an argument; the error itself when it came from inside."""
    if "argument" not in str(error):
        return error
    accepted: list[str] = []
    if isinstance(factory, str):
        module, _, attribute = factory.partition(":")
        factory = getattr(__import__(module, fromlist=[attribute]), attribute)
    with contextlib.suppress(TypeError, ValueError):
        accepted = [key for key in inspect.signature(factory).parameters if key not in ("args", "kwargs")]
    unknown = next((key for key in arguments if key not in accepted), "")
    return ConfigError(
        f"{name} was not made with env.kwargs = {arguments}. {did_you_mean(unknown, accepted)}".rstrip(),
        str(error).partition(" was raised from")[0],
        f"It takes: {', '.join(accepted)}" if accepted else "",
    )


def _is_native(env_id: str) -> bool:
    from rl_training.envs.native import NATIVE_IDS

    return env_id in NATIVE_IDS


def _make_native(env_id: str, count: int, kwargs: dict[str, Any], copy: bool) -> gym.vector.VectorEnv[Any, Any, Any]:
    from rl_training.envs.native import NATIVE_IDS, make_native

    if env_id not in NATIVE_IDS or kwargs:
        raise ConfigError(
            f"There is no native version of {env_id}{' with env.kwargs' if kwargs else ''}.",
            f"Native: {', '.join(sorted(NATIVE_IDS))} (without env.kwargs).",
            "Use env.backend: sync",
        )
    return make_native(env_id, count, copy=copy)
