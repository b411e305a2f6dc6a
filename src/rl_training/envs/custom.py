"""Environments of the user's own, `file:my_env.py:MyEnv` and `package.module:factory`, and functions: `file:my_policy.py:act`.

All run the user's code with the user's rights: on the command line, in Python, and when a run whose config names one is
resumed or evaluated. Only resume runs of others whose environment you would run yourself.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym

from rl_training.errors import ConfigError, did_you_mean

EnvFactory = Callable[..., gym.Env[Any, Any]]


def is_custom(env_id: str) -> bool:
    """True for `file:path.py:Name` and `module:name`."""
    return ":" in env_id


def load_factory(env_id: str) -> EnvFactory | str:
    """The class or function that `env_id` names, or the id that importing its module registered (`module:Env-v0`)."""
    if env_id.startswith("file:"):
        path, _, name = env_id.removeprefix("file:").rpartition(":")
        if not path:
            raise ConfigError(f"'{env_id}' lacks the class name.", fix="Write file:my_env.py:MyEnv")
        return _attribute(_load_file(Path(path).expanduser(), env_id), name, env_id)
    module_name, _, name = env_id.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"Cannot import '{module_name}' for the environment '{env_id}'.", str(error), "Is it on PYTHONPATH?"
        ) from error
    return name if name in gym.registry else _attribute(module, name, env_id)


def load_function(name: str) -> Callable[..., Any]:
    """The function that `file:my_policy.py:act` names."""
    path, _, function = name.removeprefix("file:").rpartition(":")
    if not path:
        raise ConfigError(f"'{name}' lacks the name of the function.", fix="Write file:my_policy.py:act")
    module = _load_file(Path(path).expanduser(), name)
    found: Callable[..., Any] | None = getattr(module, function, None)
    if callable(found):
        return found
    functions = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
    raise ConfigError(
        f"'{name}': {path} has no function '{function}'. {did_you_mean(function, functions)}".rstrip(),
        f"Functions it has: {', '.join(functions) or 'none'}",
    )


def source_file(env_id: str) -> Path | None:
    """The file a custom environment is defined in, when it can be told without importing it."""
    if env_id.startswith("file:"):
        return Path(env_id.removeprefix("file:").rpartition(":")[0]).expanduser()
    found = importlib.util.find_spec(env_id.partition(":")[0])
    return Path(found.origin) if found is not None and found.origin else None


def _load_file(path: Path, env_id: str) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"No file {path} (from '{env_id}').", fix=f"Looked in {Path.cwd()}")
    # Named after its content: an edited file is loaded anew, and two files with one name do not meet.
    digest = hashlib.sha256(str(path.resolve()).encode() + path.read_bytes()).hexdigest()[:12]
    name = f"rl_training_user_env_{path.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} is not a Python file.", fix="Write file:my_env.py:MyEnv")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before running it, so that dataclasses and nested lookups inside it work
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise ConfigError(
            f"Importing {path} failed: {type(error).__name__}: {error}",
            f"At {where.filename}:{where.lineno}: {where.line}",
        ) from error
    return module


def _attribute(module: ModuleType, name: str, env_id: str) -> EnvFactory:
    found: EnvFactory | None = getattr(module, name, None)
    if callable(found):
        return found
    classes = [key for key, value in vars(module).items() if isinstance(value, type) and issubclass(value, gym.Env)]
    raise ConfigError(
        f"'{env_id}': {module.__file__} has no class or function '{name}'. {did_you_mean(name, classes)}".rstrip(),
        f"Environments it has: {', '.join(classes) or 'none'}",
    )
