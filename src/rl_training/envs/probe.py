"""Find out how an environment can be captured, by trying: what continues equally in a fresh process is right.

One process steps the environment, captures it in every way and goes on; another one, with other global random numbers,
restores each capture and goes on with the same actions. The first way with equal results wins. The same process would
not do: many environments only look right until the process that made them ends.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from rl_training.envs.custom import EnvFactory, is_custom, source_file
from rl_training.envs.factory import make_env
from rl_training.envs.names import find_spec
from rl_training.envs.snapshot import CapturedEnv, obs_hash
from rl_training.errors import UserError
from rl_training.state import Tree

STEPS_BEFORE, STEPS_AFTER = 200, 100
_STEPPING_SECONDS, _PROCESS_SECONDS = 10.0, 60.0


def probe(env_id: str | EnvFactory, kwargs: dict[str, Any] | None = None) -> str:
    """ "hook", "python", "mujoco" or "replay": the way that restores this environment exactly; or "none: <reason>".

    Takes a second or two for an environment seen for the first time; the answer is kept in ~/.cache/rl_training.
    """
    name = env_id if isinstance(env_id, str) else _importable_name(env_id)
    if name is None:
        return "none: the environment is made by a local function; name it as file:my_env.py:MyEnv"
    try:
        request = json.dumps({"env_id": name, "kwargs": kwargs or {}}, sort_keys=True)
    except TypeError:
        return "none: env.kwargs has values that cannot be written as JSON"
    cached = _cache_file(name, request)
    if cached.is_file():
        return str(json.loads(cached.read_text())["method"])
    found = _probe_in_processes(request)
    cached.parent.mkdir(parents=True, exist_ok=True)
    partial = cached.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps({**json.loads(request), "method": found}))
    partial.replace(cached)
    return found


def _probe_in_processes(request: str) -> str:
    with tempfile.TemporaryDirectory(prefix="rl-training-probe-") as folder:
        file = Path(folder) / "probe.json"
        file.write_text(request)
        for action in ("capture", "restore"):
            command = [sys.executable, "-m", "rl_training.envs.probe", action, str(file)]
            environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)}
            try:
                subprocess.run(command, env=environ, check=True, capture_output=True, timeout=_PROCESS_SECONDS)
            except subprocess.TimeoutExpired:
                return f"none: the probe took longer than {_PROCESS_SECONDS:g} s"
            except subprocess.CalledProcessError as error:
                last = error.stderr.decode(errors="replace").strip().rpartition("\n")[2]
                return f"none: the environment failed in the probe ({last or f'exit code {error.returncode}'})"
        return str(json.loads(file.read_text())["method"])


def _capture(job: dict[str, Any]) -> dict[str, Any]:
    env, actions = _start(job, seed=1)
    env.reset(seed=7)
    began = time.monotonic()
    taken = 0
    while taken < STEPS_BEFORE and time.monotonic() - began < _STEPPING_SECONDS:
        _step(env, actions[taken], force_reset=taken == STEPS_BEFORE // 2)
        taken += 1
    trees: dict[str, Tree] = {}
    for method in env.possible_methods():
        trees[method] = _to_json(env.get_rl_state(method))
    after = min(STEPS_AFTER, max(taken // 2, 1))
    return {**job, "trees": trees, "taken": taken, "after": after, "hash": _go_on(env, actions[taken : taken + after])}


def _restore(job: dict[str, Any]) -> dict[str, Any]:
    for method, tree in job["trees"].items():
        env, actions = _start(job, seed=2)
        try:
            env.set_rl_state(_from_json(tree))
            digest = _go_on(env, actions[job["taken"] : job["taken"] + job["after"]])
        except Exception:
            continue  # this way does not work: a wrong capture may break the environment in any manner
        if digest == job["hash"]:
            return {"method": method}
    return {"method": "none: its state or randomness cannot be restored from attributes, seed and actions"}


def _start(job: dict[str, Any], seed: int) -> tuple[CapturedEnv, list[Any]]:
    make_env(job["env_id"], kwargs=job["kwargs"]).close()  # imports all that it needs, so that all of it can be seeded
    random.seed(seed)
    np.random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)
    env = CapturedEnv(make_env(job["env_id"], kwargs=job["kwargs"]), record=True)
    space = copy.deepcopy(env.action_space)
    space.seed(3)
    return env, [space.sample() for _ in range(STEPS_BEFORE + STEPS_AFTER)]


def _step(env: gym.Env[Any, Any], action: Any, force_reset: bool = False) -> str:
    obs, reward, terminated, truncated, _ = env.step(action)
    text = f"{obs_hash(obs)} {float(reward)!r} {bool(terminated)} {bool(truncated)}"
    return text + obs_hash(env.reset()[0]) if terminated or truncated or force_reset else text


def _go_on(env: gym.Env[Any, Any], actions: list[Any]) -> str:
    half = len(actions) // 2
    steps = [_step(env, action, force_reset=index == half) for index, action in enumerate(actions)]
    return hashlib.sha256("\n".join(steps).encode()).hexdigest()


def _to_json(tree: Tree) -> Tree:
    if isinstance(tree, np.ndarray):
        data = base64.b64encode(np.ascontiguousarray(tree).tobytes()).decode()
        return {"array": data, "dtype": tree.dtype.str, "shape": list(tree.shape)}
    if isinstance(tree, dict):
        return {"dict": {key: _to_json(value) for key, value in tree.items()}}
    return [_to_json(value) for value in tree] if isinstance(tree, list) else tree


def _from_json(tree: Tree) -> Tree:
    if isinstance(tree, list):
        return [_from_json(value) for value in tree]
    if not isinstance(tree, dict):
        return tree
    if "dict" in tree:
        return {key: _from_json(value) for key, value in tree["dict"].items()}
    return np.frombuffer(base64.b64decode(tree["array"]), tree["dtype"]).reshape(tree["shape"]).copy()


def _importable_name(factory: EnvFactory) -> str | None:
    module, name = getattr(factory, "__module__", "__main__"), getattr(factory, "__qualname__", "")
    reachable = module != "__main__" and getattr(sys.modules.get(module), name, None) is factory
    return f"{module}:{name}" if reachable else None


def _cache_file(name: str, request: str) -> Path:
    """Named after all that the answer depends on: the environment, its code and the versions of what it runs on."""
    code = hashlib.sha256()
    package = "gymnasium"
    source = source_file(name) if is_custom(name) else None
    if not is_custom(name):
        entry = find_spec(name).entry_point
        module = entry.partition(":")[0] if isinstance(entry, str) else str(getattr(entry, "__module__", ""))
        package = module.partition(".")[0]
        found = importlib.util.find_spec(module)
        source = Path(found.origin) if found is not None and found.origin else None
    for path in sorted(source.parent.glob("*.py")) if source is not None else ():
        code.update(path.read_bytes())
    versions = [sys.version, gym.__version__, np.__version__]
    for distribution in {package, "rl-training", "mujoco"}:
        try:
            versions.append(f"{distribution} {importlib.metadata.version(distribution)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(distribution)
    digest = hashlib.sha256("\n".join([request, code.hexdigest(), *sorted(versions)]).encode()).hexdigest()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "rl_training" / "probe" / f"{digest[:32]}.json"


def _main(action: str, file: Path) -> None:
    job = json.loads(file.read_text())
    try:
        result = _capture(job) if action == "capture" else _restore(job)
    except UserError as error:
        sys.exit(str(error).replace("\n", " "))
    file.write_text(json.dumps(result))


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]))
