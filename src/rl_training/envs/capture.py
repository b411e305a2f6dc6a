"""How the state of a whole vector of environments is saved: the way, in words, and the saving and loading itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import gymnasium as gym
from gymnasium.vector import AutoresetMode

from rl_training.envs.factory import EnvMaker, EnvName
from rl_training.errors import CheckpointError
from rl_training.state import Tree

_WORDS = {
    "native": "native state",
    "hook": "the environment's own get_rl_state",
    "python": "plain Python",
    "mujoco": "MuJoCo state",
    "replay": "replay",
}


@dataclass(frozen=True)
class Capture:
    """A way to save environments: "native", a method of `CapturedEnv`, or "none" with the reason."""

    method: str
    reason: str = ""

    @property
    def exact(self) -> bool:
        return self.method != "none"

    @property
    def label(self) -> str:
        return f"exact ({_WORDS[self.method]})" if self.exact else f"not exact: {self.reason}"

    def save(self, envs: gym.vector.VectorEnv[Any, Any, Any]) -> dict[str, Tree]:
        base: Any = envs.unwrapped
        if self.method == "native":
            return {"capture": self.method, "envs": base.state_dict()}
        states = list(base.call("get_rl_state", self.method)) if self.exact else None
        return {"capture": self.method, "envs": states}

    def load(self, envs: gym.vector.VectorEnv[Any, Any, Any], state: dict[str, Tree]) -> None:
        saved, base = state["capture"], cast(Any, envs.unwrapped)
        if saved == "none" or not self.exact:
            return  # a new episode starts: the caller looks at `exact`
        if (saved == "native") != (self.method == "native"):
            raise CheckpointError(
                f"The environments were saved by '{saved}' and are now captured by '{self.method}'.",
                fix="Resume with the env.backend of the saved run.",
            )
        if saved == "native":
            base.load_state_dict(state["envs"])
        else:
            base.set_attr("incoming", list(state["envs"]))
            base.call("set_rl_state")


def choose(envs: gym.vector.VectorEnv[Any, Any, Any]) -> Capture:
    """The best way to save `envs`; environments that were never seen before are probed in fresh processes."""
    base = envs.unwrapped
    if hasattr(base, "state_dict"):
        return Capture("native")
    if envs is not base:
        return Capture("none", f"{type(envs).__name__} around the environments has state of its own")
    if not isinstance(base, gym.vector.SyncVectorEnv | gym.vector.AsyncVectorEnv):
        return Capture("none", f"{type(base).__name__} cannot save its state")
    maker = base.env_fns[0]
    if not isinstance(maker, EnvMaker):
        return Capture("none", "the environments were not made by make_vector_env")
    if isinstance(base, gym.vector.AsyncVectorEnv) and base.autoreset_mode is AutoresetMode.NEXT_STEP:
        return Capture("none", "worker processes in next-step autoreset hide whether a reset is due")
    found = for_source(maker.env_id, maker.kwargs, family=base.get_attr("method")[0])
    base.call("use", found.method)
    return found


def for_source(env_id: EnvName, kwargs: dict[str, Any], family: str) -> Capture:
    """The capture of what `make_env(env_id, kwargs=kwargs)` makes: its family's, else what a probe finds."""
    if family:
        return Capture(family)
    from rl_training.envs.probe import probe

    method, _, reason = probe(env_id, kwargs).partition(": ")
    return Capture(method, reason)
