"""Capture and restore the state of one environment, so that a resumed run continues its episode bit for bit.

Ways, best first: the environment's own hook (`get_rl_state`, `set_rl_state`), its Python attributes, MuJoCo's state
on top of them, or replaying the actions since the last reset. Which one is right for an environment is decided by
`probe`.
"""

from __future__ import annotations

import hashlib
from typing import Any

import gymnasium as gym
import numpy as np

from rl_training.envs.families import family_method, load_mujoco_state, mujoco_state, new_box2d_world, not_state
from rl_training.envs.snapshot_reader import TreeReader
from rl_training.envs.snapshot_tree import TreeWriter
from rl_training.errors import EnvError
from rl_training.state import Tree


class CapturedEnv(gym.Wrapper[Any, Any, Any, Any]):
    """The outermost wrapper of every sub-environment: records what restoring needs, and hands everything through.

    `incoming` holds a tree for a later `set_rl_state()` without argument: worker processes are handed theirs in two
    steps.
    """

    def __init__(self, env: gym.Env[Any, Any], record: bool = False) -> None:
        super().__init__(env)
        self.incoming: Tree = None
        self.method = family_method(env)
        self._record(record or self.method in ("", "replay"))
        self._start: dict[str, Tree] | None = None
        self._actions: list[Any] = []
        self._last_obs: Any = None

    def use(self, method: str) -> None:
        """From now on capture by `method` only ("" records for all ways, until it is known)."""
        self.method = method
        self._record(method in ("", "replay"))

    def _record(self, recording: bool) -> None:
        """Without recording, `step` is the wrapped environment's own: this wrapper then costs nothing."""
        self._recording = recording
        self.__dict__.pop("step", None)
        if not recording:
            self.__dict__["step"] = self.env.step

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if self._recording:
            # With a seed the generator is made anew, so its state before the reset does not matter.
            rng = None if seed is not None else TreeWriter([]).value(self.env.unwrapped.np_random)
            self._start = {"rng": rng, "seed": seed, "options": TreeWriter([]).value(options)}
            self._actions = []
            new_box2d_world(self.env.unwrapped)
        if seed is not None:  # spaces draw from the operating system's entropy otherwise, and some environments sample from them
            self.action_space.seed(seed)
            self.observation_space.seed(seed)
        obs, info = self.env.reset(seed=seed, options=options)
        self._last_obs = obs
        return obs, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        # Before the step, because an environment may change the action array it is given.
        self._actions.append(action.copy() if isinstance(action, np.ndarray) else action)
        result = self.env.step(action)
        self._last_obs = result[0]
        return result

    def possible_methods(self) -> list[str]:
        """The ways worth trying for this environment, best first."""
        hook = ["hook"] if self._hook_owner() is not None else []
        data = getattr(self.env.unwrapped, "data", None)
        simulator = ["mujoco"] if type(data).__module__.startswith("mujoco") else []
        return [*hook, *simulator, "python", "replay"]

    def get_rl_state(self, method: str = "") -> dict[str, Tree]:
        """The state as a tree of JSON values and arrays, by `method` ("" for the one this family is known to need)."""
        method = method or self.method or self.possible_methods()[0]
        if method == "replay":
            actions = np.stack(self._actions) if self._actions else None
            return {"method": method, "start": self._start, "actions": actions, "hash": obs_hash(self._last_obs)}
        layers = self._layers()
        tree: dict[str, Tree] = {"method": method}
        if method == "hook":
            owner = self._hook_owner()
            tree["hook"] = owner.get_rl_state()
            layers = layers[: layers.index(owner)]
            tree["rng"] = TreeWriter([]).value(self.env.unwrapped.np_random)
        elif method == "mujoco":
            tree["mujoco"] = mujoco_state(self.env.unwrapped)
        writer = TreeWriter(layers)
        tree["layers"] = [writer.attributes(layer, not_state(layer)) for layer in layers]
        return tree

    def set_rl_state(self, tree: Tree = None) -> None:
        """Continue from a `get_rl_state()` of an environment made with the same arguments."""
        tree = self.incoming if tree is None else tree
        self.incoming = None
        if tree["method"] == "replay":
            self._replay(tree)
            return
        self.env.reset()  # simulators build what they need at the first reset
        layers = self._layers()
        if tree["method"] == "hook":
            owner = self._hook_owner()
            self.env.unwrapped.np_random = TreeReader([]).value(tree["rng"])
            owner.set_rl_state(tree["hook"])
            layers = layers[: layers.index(owner)]
        elif tree["method"] == "mujoco":
            load_mujoco_state(self.env.unwrapped, tree["mujoco"])
        reader = TreeReader(layers)
        for layer, saved in zip(layers, tree["layers"], strict=True):
            reader.attributes(layer, saved, not_state(layer))

    def _replay(self, tree: dict[str, Tree]) -> None:
        start = tree["start"]
        if start is None:
            return  # captured before the first reset: nothing has happened yet
        if start["rng"] is not None:
            self.env.unwrapped.np_random = TreeReader([]).value(start["rng"])
        self.reset(seed=start["seed"], options=TreeReader([]).value(start["options"]))
        self._start = start  # of the first reset, whose generator state is now overwritten
        for action in tree["actions"] if tree["actions"] is not None else ():
            self.step(np.array(action) if np.ndim(action) else action)
        if obs_hash(self._last_obs) != tree["hash"]:
            raise EnvError(
                f"{type(self.env.unwrapped).__name__} did not reach its saved state again.",
                f"After replaying {len(self._actions)} actions from the last reset its observation differs.",
                "It draws on more than its seed and actions, or its package changed; see: rl-training check-env",
            )

    def _layers(self) -> list[Any]:
        layers: list[Any] = [self.env]
        while isinstance(layers[-1], gym.Wrapper):
            layers.append(layers[-1].env)
        return layers

    def _hook_owner(self) -> Any:
        return next((layer for layer in self._layers() if hasattr(type(layer), "get_rl_state")), None)


def obs_hash(obs: Any) -> str:
    """A digest of an observation of any space."""
    digest = hashlib.sha256()
    _update(digest, obs)
    return digest.hexdigest()


def _update(digest: Any, obs: Any) -> None:
    if isinstance(obs, dict):
        for key in sorted(obs, key=str):
            digest.update(str(key).encode())
            _update(digest, obs[key])
    elif isinstance(obs, tuple | list):
        for part in obs:
            _update(digest, part)
    else:
        array = np.asarray(obs)
        digest.update(f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
