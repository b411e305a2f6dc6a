"""The one place that knows autoreset modes, `final_obs`, action scaling and Dict/Tuple flattening.

Above it there is one form of experience: canonical observations, canonical actions, and the true successor of every
step.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from rl_training.envs import capture
from rl_training.envs.spaces import ObsTranslator, action_translator
from rl_training.errors import ConfigError, EnvError
from rl_training.specs import ActionSpec, ObsSpec, action_spec
from rl_training.state import Tree


class Transition(NamedTuple):
    """One step of all sub-environments.

    `obs` is what the policy acts on next (of the new episode where one ended). `next_obs` is the true successor, also
    at episode ends; when nothing ended it is the same object as `obs`. Rows where `valid` is False are not experience
    and must be ignored; `valid` is None when all rows count. `success` says for ended episodes whether they reached what
    was wanted; None when the environments do not tell.
    """

    obs: Any
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    next_obs: Any
    valid: np.ndarray | None
    success: np.ndarray | None = None


class EnvAdapter:
    """Steps a `gymnasium.vector.VectorEnv` of any autoreset mode in canonical form.

    Returned arrays may be overwritten by the next call: copy what you keep. `step_timeout` is how many seconds a worker
    process may take for a step before it counts as hung (None: for ever).
    """

    def __init__(self, envs: gym.vector.VectorEnv[Any, Any, Any], *, step_timeout: float | None = 60.0) -> None:
        self.envs = envs
        self.num_envs: int = envs.num_envs
        self._translate = ObsTranslator(envs.single_observation_space)
        self.obs_spec: ObsSpec = self._translate.spec
        self.action_spec: ActionSpec = action_spec(envs.single_action_space)
        self._to_env = action_translator(envs.single_action_space, self.num_envs)
        self._batch = self._translate.batch
        self._mode = _autoreset_mode(envs)
        # NEXT_STEP only: the rows whose episode ended in the last step, so that their next step is a reset and not
        # experience.
        self._ended = np.zeros(self.num_envs, np.bool_)
        if hasattr(envs, "step_timeout"):
            envs.step_timeout = step_timeout

    def reset(self, seed: int | None = None) -> Any:
        """Start a new episode everywhere and return its observations; sub-environment i is seeded with `seed + i`."""
        self._ended = np.zeros(self.num_envs, np.bool_)
        return self._batch(self.envs.reset(seed=seed)[0])

    def step(self, action: np.ndarray) -> Transition:
        """Step everywhere with canonical actions."""
        raw, reward, terminated, truncated, infos = self.envs.step(self._to_env(action))
        reward = reward.astype(np.float32)
        obs = self._batch(raw)
        if self._mode is AutoresetMode.SAME_STEP:
            next_obs = self._successors(obs, infos) if "final_obs" in infos else obs
            return Transition(obs, reward, terminated, truncated, next_obs, None, _success(infos.get("final_info", {})))
        ended = terminated | truncated
        if self._mode is AutoresetMode.NEXT_STEP:
            valid = ~self._ended if self._ended.any() else None
            self._ended = ended
            return Transition(obs, reward, terminated, truncated, obs, valid, _success(infos))
        if not ended.any():
            return Transition(obs, reward, terminated, truncated, obs, None)
        # DISABLED: copies first, because an environment may reuse its arrays in the reset.
        next_obs, terminated, truncated = self._translate.copy(obs), terminated.copy(), truncated.copy()
        obs = self._batch(self.envs.reset(options={"reset_mask": ended})[0])
        return Transition(obs, reward, terminated, truncated, next_obs, None, _success(infos))

    def _successors(self, obs: Any, infos: dict[str, Any]) -> Any:
        """The observations with those of ended episodes replaced by their last ones."""
        final = infos["final_obs"]
        if not (isinstance(final, np.ndarray) and final.dtype == object):
            return self._batch(final)  # native environments give the whole batch
        next_obs = self._translate.copy(obs)
        for index in map(int, np.flatnonzero(infos["_final_obs"])):
            self._translate.write_row(next_obs, index, final[index])
        return next_obs

    def sample_actions(self, rng: np.random.Generator) -> np.ndarray:
        """Uniformly random canonical actions, drawn from `rng` only."""
        spec, count = self.action_spec, self.num_envs
        if spec.kind == "continuous":
            return rng.uniform(-1.0, 1.0, (count, spec.dim)).astype(np.float32)
        return rng.integers(0, np.array(spec.nvec) if spec.kind == "multidiscrete" else spec.n, (count, *spec.shape))

    def close(self) -> None:
        """Close all sub-environments and end their processes."""
        self.envs.close()

    @cached_property
    def _capture(self) -> capture.Capture:
        return capture.choose(self.envs)

    @property
    def capture(self) -> str:
        """How the environments' state is saved, in words: "exact (plain Python)", ..., or "not exact: <reason>".

        The first call may start a short probe process for environments that were never seen before.
        """
        return self._capture.label

    @property
    def exact(self) -> bool:
        """True when `load_state_dict` continues the saved episodes bit for bit. When False, reset after loading."""
        return self._capture.exact

    def state_dict(self) -> dict[str, Tree]:
        """Everything that decides what the environments do next (nothing when `exact` is False)."""
        return {"num_envs": self.num_envs, "ended": self._ended.copy(), **self._capture.save(self.envs)}

    def load_state_dict(self, state: dict[str, Tree]) -> None:
        """Continue the episodes of a `state_dict()`."""
        if state["num_envs"] != self.num_envs:
            raise ConfigError(
                f"The saved state is of {state['num_envs']} environments; this run has {self.num_envs}.",
                fix=f"Use env.num_envs: {state['num_envs']}",
            )
        self._capture.load(self.envs, state)
        self._ended = np.array(state["ended"], np.bool_)
        if self._mode is AutoresetMode.NEXT_STEP and isinstance(self.envs.unwrapped, gym.vector.SyncVectorEnv):
            self.envs.unwrapped._autoreset_envs[:] = self._ended


def _success(infos: Any) -> np.ndarray | None:
    """What environments call `is_success` (gymnasium-robotics' mazes: `success`) in their infos, as 0 or 1."""
    if not isinstance(infos, dict):
        return None
    found = infos.get("is_success", infos.get("success"))
    return None if found is None else np.asarray(found, np.float64) > 0


def _autoreset_mode(envs: gym.vector.VectorEnv[Any, Any, Any]) -> AutoresetMode:
    mode = envs.metadata.get("autoreset_mode")
    if mode is None:
        raise EnvError(
            f"{type(envs).__name__} does not say how it resets ended episodes.",
            "Its metadata lacks 'autoreset_mode', and guessing would corrupt the targets at episode ends.",
            'Set metadata["autoreset_mode"] = gymnasium.vector.AutoresetMode.SAME_STEP (or NEXT_STEP, DISABLED).',
        )
    return AutoresetMode(mode)
