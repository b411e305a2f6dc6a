"""What reaching a goal is worth: an environment's own `compute_reward` and `compute_terminated`, asked for whole batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rl_training.errors import ConfigError

_TRIALS = 4  # steps that tell how an environment rewards
Function = Callable[[Any, Any, dict[str, Any]], Any]


class _Trials(NamedTuple):
    """A few steps: what each achieved, what was desired, and its reward."""

    achieved: NDArray[Any]
    desired: NDArray[Any]
    reward: NDArray[np.float64]


class GoalReward:
    """Canonical goals (B, ...) to float32 rewards (B,) and terminations (B,), the latter None without `compute_terminated`.

    A function that does not take batches is called row by row. `env` must be nobody else's: making a GoalReward steps it a
    few times, and refuses one whose steps give other rewards than its `compute_reward`.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self.name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        space = env.observation_space["desired_goal"] if isinstance(env.observation_space, gym.spaces.Dict) else None
        if not isinstance(space, gym.spaces.Box | gym.spaces.MultiBinary):
            raise ConfigError(
                f"The goals of {self.name} are of {space}; relabelling takes arrays of numbers.",
                fix="Use a Box or MultiBinary space for them, or leave out algorithm.relabel",
            )
        self.dtype = space.dtype
        if not env.has_wrapper_attr("compute_reward"):
            raise ConfigError(
                f"{self.name} has no compute_reward(achieved_goal, desired_goal, info), which rewards the goals put in later.",
                fix="Add that method, for batches of goals, or leave out algorithm.relabel",
            )
        trials = _try(env)
        self._reward = self._for_batches(env.get_wrapper_attr("compute_reward"), trials)
        self._terminated: Function | None = None
        if env.has_wrapper_attr("compute_terminated"):
            self._terminated = self._for_batches(env.get_wrapper_attr("compute_terminated"), trials)
        computed = np.asarray(self._reward(trials.achieved, trials.desired, {}), np.float64)
        if not np.allclose(computed, trials.reward, rtol=1e-4, atol=1e-6):
            raise ConfigError(
                f"{self.name}: step gave the rewards {trials.reward.tolist()}, compute_reward gives {computed.tolist()}.",
                "Relabelled steps would be rewarded unlike the others (their info is empty; a wrapper may change rewards).",
                "Make both agree, or leave out algorithm.relabel",
            )

    def __call__(
        self, achieved: NDArray[np.float32], desired: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_] | None]:
        achieved, desired = achieved.astype(self.dtype), desired.astype(self.dtype)
        reward = np.asarray(self._reward(achieved, desired, {}), np.float32)
        return reward, None if self._terminated is None else np.asarray(self._terminated(achieved, desired, {}), np.bool_)

    def _for_batches(self, function: Function, trials: _Trials) -> Function:
        """`function` itself where it gives for a batch what it gives for each row, otherwise a loop over the rows."""

        def by_row(achieved: Any, desired: Any, info: dict[str, Any]) -> Any:
            return np.array([function(a, d, info) for a, d in zip(achieved, desired)])

        # Everything achieved is also taken as a goal, so that goals both reached and missed are among the pairs.
        achieved = np.concatenate([np.repeat(trials.achieved, len(trials.achieved), axis=0), trials.achieved])
        desired = np.concatenate([*[trials.achieved] * len(trials.achieved), trials.desired])
        try:
            expected = by_row(achieved, desired, {})
        except Exception as error:
            raise ConfigError(
                f"{self.name}.{function.__name__} failed: {type(error).__name__}: {error}",
                "It is called with two goals and an empty info when steps are relabelled.",
                "Compute it from the goals alone, or leave out algorithm.relabel",
            ) from error
        try:
            batched = np.asarray(function(achieved, desired, {}))
        except Exception:  # such as "if distance < limit" on an array
            return by_row
        return function if batched.shape == expected.shape and np.allclose(batched, expected, rtol=1e-5) else by_row


def _try(env: gym.Env[Any, Any]) -> _Trials:
    env.action_space.seed(0)
    env.reset(seed=0)
    steps = []
    for _ in range(_TRIALS):
        obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        steps.append((np.array(obs["achieved_goal"]), np.array(obs["desired_goal"]), float(reward)))
        if terminated or truncated:
            env.reset()
    achieved, desired, rewards = zip(*steps)
    return _Trials(np.stack(achieved), np.stack(desired), np.array(rewards))
