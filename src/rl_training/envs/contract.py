"""The Gymnasium contract, rule by rule: what each value must be, and what to change when it is not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np

from rl_training.errors import UserError
from rl_training.specs import action_spec, obs_spec


@dataclass(frozen=True)
class Finding:
    """One breach of the contract. severity: "error" (training fails or learns wrongly) or "warning"."""

    severity: str
    what: str
    fix: str


class PointlessToGoOn(Exception):  # noqa: N818 - not an error of ours
    """Raised after a finding without whose mending nothing more can be checked."""


@dataclass
class Contract:
    """Checks values and collects findings, each kind once."""

    name: str
    findings: list[Finding] = field(default_factory=list)

    def warn(self, what: str, fix: str, severity: str = "warning") -> None:
        # Numbers in `what` differ from step to step; the fix does not.
        if all(known.fix != fix for known in self.findings):
            self.findings.append(Finding(severity, what, fix))

    def error(self, what: str, fix: str) -> None:
        self.warn(what, fix, "error")

    def stop(self, what: str, fix: str) -> NoReturn:
        self.error(what, fix)
        raise PointlessToGoOn

    def spaces(self, env: gym.Env[Any, Any]) -> None:
        """Both spaces are there, can be read, and actions have bounds."""
        for attribute, read in (("observation_space", obs_spec), ("action_space", action_spec)):
            space: Any = getattr(env, attribute, None)
            if not isinstance(space, gym.Space):
                fix = f"Set self.{attribute} in __init__, e.g. gymnasium.spaces.Box(-1, 1, (3,))."
                self.stop(f"{self.name} has no {attribute}.", fix)
            try:
                read(space)
            except UserError as error:
                self.stop(error.what, error.fix)
        if isinstance(env.action_space, gym.spaces.Box) and not env.action_space.is_bounded():
            self.warn(
                f"{self.name}.action_space has no finite bounds: actions are passed on unscaled.",
                "Give it the bounds that the task accepts; policies act in [-1, 1], scaled to them.",
            )
        shape: tuple[int, ...] = getattr(env.observation_space, "shape", None) or ()
        if len(shape) == 3 and env.observation_space.dtype == np.uint8 and shape[-1] in (1, 3, 4) and shape[0] > 4:
            self.warn(
                f"Images of shape {shape} have their channels last.",
                "Policies read (channels, height, width): transpose in a gymnasium wrapper.",
            )

    def reset(self, space: gym.Space[Any], result: Any) -> Any:
        """`reset` returned (obs, info); gives obs."""
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
            self.stop(f"{self.name}.reset did not return (obs, info).", "Return obs, {}.")
        self.observation(space, result[0], "reset")
        return result[0]

    def step(self, space: gym.Space[Any], result: Any) -> bool:
        """`step` returned five values of the right kinds; True when the episode ended."""
        if not (isinstance(result, tuple) and len(result) == 5):
            self.not_five(f"{len(result)} values" if isinstance(result, tuple) else type(result).__name__)
        obs, reward, terminated, truncated, info = result
        self.observation(space, obs, "step")
        if np.ndim(reward) != 0 or not isinstance(reward, int | float | np.number | np.bool_ | np.ndarray):
            self.stop(f"The reward is {reward!r}, not one number.", "Return float(reward).")
        if not np.isfinite(float(reward)):
            self.error(f"The reward is {float(reward)}.", "Find the division or logarithm that makes it.")
        for name, flag in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(flag, bool | np.bool_):
                self.error(f"{name} is {flag!r}, not a bool.", f"Return bool({name}).")
        if not isinstance(info, dict):
            self.error(f"info is {type(info).__name__}, not a dict.", "Return {} as info.")
        return bool(terminated) or bool(truncated)

    def not_five(self, found: str) -> NoReturn:
        """`step` returned another number of values."""
        self.stop(
            f"{self.name}.step did not return 5 values ({found}).",
            "Return (obs, reward, terminated, truncated, info): done is split into terminated (the task ended) and "
            "truncated (a time limit).",
        )

    def observation(self, space: gym.Space[Any], obs: Any, source: str) -> None:
        """`obs` is in its space, in shape, dtype and bounds."""
        if not isinstance(space, gym.spaces.Box):
            if not space.contains(obs):
                fix = "Make observation_space and the returned observation agree."
                self.error(f"{source} returned {obs!r:.200}, which is not in {space}.", fix)
            return
        array = np.asarray(obs)
        if array.shape != space.shape:
            self.stop(
                f"{source} returned an observation of shape {array.shape}; the space says {space.shape}.",
                "Make observation_space and the returned observation agree in shape.",
            )
        if array.dtype != space.dtype:
            self.warn(
                f"{source} returned {array.dtype}; the space says {space.dtype}.",
                f"Return obs.astype(np.{space.dtype}), or correct the dtype of observation_space.",
            )
        if np.isnan(array).any():
            at = np.argwhere(np.isnan(array))[0].tolist()
            fix = "Find the operation that makes NaN: training would stop at it."
            self.error(f"{source} returned NaN at index {at}.", fix)
        elif len(outside := np.argwhere((array < space.low) | (array > space.high))):
            at = tuple(map(int, outside[0]))
            bounds = f"[{space.low[at]:g}, {space.high[at]:g}]"
            self.warn(
                f"{source} returned {array[at]:g} at index {list(at)}, outside {bounds}.",
                "Widen observation_space or clip; unknown scales are what normalizing observations is for.",
            )
