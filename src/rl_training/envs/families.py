"""What is known of Gymnasium's own families: how each is captured, and what its simulator needs for that."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from rl_training.state import Tree

_TOY_TEXT = "gymnasium.envs.toy_text"
_METHODS = {
    "gymnasium.envs.classic_control": "python",
    _TOY_TEXT: "python",
    "gymnasium.envs.mujoco.": "mujoco",
    "gymnasium.envs.box2d": "replay",
    "rl_training.envs.goal_tasks": "python",
}
# Computed by a MuJoCo step and read by tasks before the next one; restored as they were: mj_forward would differ.
_MUJOCO_ARRAYS = (
    *("ctrl", "qacc", "xpos", "xquat", "xmat", "xipos", "ximat", "geom_xpos", "geom_xmat", "site_xpos", "site_xmat"),
    *("subtree_com", "subtree_linvel", "subtree_angmom", "cvel", "cacc", "cinert", "cfrc_int", "cfrc_ext"),
    *("qfrc_actuator", "qfrc_bias", "qfrc_passive", "qfrc_constraint"),
    *("actuator_force", "actuator_length", "actuator_velocity", "sensordata", "ten_length"),
)


def family_method(env: gym.Env[Any, Any]) -> str:
    """How Gymnasium's own environments are captured; "" for all others, which are probed."""
    layer: Any = env
    while isinstance(layer, gym.Wrapper):
        if not type(layer).__module__.startswith("gymnasium."):
            return ""  # a wrapper of the user's may keep what attributes do not show
        layer = layer.env
    module = type(env.unwrapped).__module__
    return next((method for family, method in _METHODS.items() if module.startswith(family)), "")


def not_state(layer: Any) -> frozenset[str]:
    """Attributes left alone: the wrapped environment (a layer of its own), and toy text's large constant table."""
    return frozenset({"env", "P"} if type(layer).__module__.startswith(_TOY_TEXT) else {"env"})


def mujoco_state(env: Any) -> dict[str, Tree]:
    """MuJoCo's integration state with the derived arrays of `env` (which has `model` and `data`)."""
    import mujoco

    spec = mujoco.mjtState.mjSTATE_INTEGRATION
    state = np.empty(mujoco.mj_stateSize(env.model, spec))
    mujoco.mj_getState(env.model, env.data, state, spec)
    return {"state": state, **{name: np.array(getattr(env.data, name)) for name in _MUJOCO_ARRAYS}}


def load_mujoco_state(env: Any, tree: dict[str, Tree]) -> None:
    """The inverse of `mujoco_state`."""
    import mujoco

    mujoco.mj_setState(env.model, env.data, np.asarray(tree["state"]), mujoco.mjtState.mjSTATE_INTEGRATION)
    for name in _MUJOCO_ARRAYS:
        np.copyto(getattr(env.data, name), tree[name])


def new_box2d_world(env: Any) -> None:
    """Before a reset, give BipedalWalker and CarRacing a new physics world.

    They reuse one for all episodes, and a used world remembers: the same episode then differs in the last digits, and
    the replay of it alone goes astray. (LunarLander makes a new one by itself, for this reason.)
    """
    name = type(env).__name__
    if not type(env).__module__.startswith("gymnasium.envs.box2d") or name not in ("BipedalWalker", "CarRacing"):
        return
    import Box2D  # type: ignore[import-untyped]

    env._destroy()
    env.world.contactListener = None
    if name == "BipedalWalker":
        env.world = Box2D.b2World()
    else:
        env.world = Box2D.b2World((0, 0), contactListener=env.contactListener_keepref)
