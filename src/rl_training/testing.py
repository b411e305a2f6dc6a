"""Small environments for tests: two with known answers, and a family that each break the contract in one way.

Run them like any other, e.g. `rl-training check-env rl_training.testing:WrongDtype`.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import gymnasium as gym
import numpy as np


class OneState(gym.Env[Any, Any]):
    """One state, reward 1, truncated after 10 steps: the value is 1 / (1 - gamma), unless truncation is taken for an
    end.

    The observation counts the steps, so that a wrong successor shows; `count=False` makes it constant.
    """

    def __init__(self, limit: int = 10, count: bool = True) -> None:
        self.observation_space = gym.spaces.Box(0.0, 1000.0, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self._limit, self._count, self._steps = limit, count, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self._steps += 1
        return self._obs(), 1.0, False, self._steps >= self._limit, {}

    def _obs(self) -> Any:
        return np.array([self._steps if self._count else 0.0], np.float32)


class Noisy(gym.Env[Any, Any]):
    """Well behaved: a random walk of two numbers in [-1, 1]; ends at the border, truncated after 50 steps."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._at = np.zeros(2)
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._at, self._steps = self.np_random.uniform(-0.5, 0.5, 2), 0
        return self._at.astype(np.float32), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self._steps += 1
        moved = self._at + 0.1 * np.asarray(action, np.float64) + self.np_random.normal(0.0, 0.05, 2)
        self._at = np.clip(moved, -1.0, 1.0)
        terminated = bool((np.abs(self._at) >= 1.0).any())
        return self._at.astype(np.float32), 1.0 - float(np.abs(self._at).sum()), terminated, self._steps >= 50, {}


class Mixed(Noisy):
    """Well behaved, with a nested observation and a Discrete action that starts at 5."""

    def __init__(self) -> None:
        super().__init__()
        inner = self.observation_space
        self.observation_space = gym.spaces.Dict(
            {
                "at": gym.spaces.Tuple((inner, gym.spaces.Box(-1.0, 1.0, (), np.float64))),
                "kind": gym.spaces.Discrete(3, start=1),
                "many": gym.spaces.MultiDiscrete([2, 3]),
                "on": gym.spaces.MultiBinary(2),
            }
        )
        self.action_space = gym.spaces.Discrete(3, start=5)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        obs, info = super().reset(seed=seed, options=options)
        return self._mixed(obs), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        assert action in (5, 6, 7), action
        obs, *rest = super().step(np.full(2, int(action) - 6))
        return self._mixed(obs), *rest

    def _mixed(self, obs: Any) -> dict[str, Any]:
        kind = self._steps % 3
        return {
            "at": (obs, np.asarray(obs[0], np.float64)),
            "kind": np.int64(1 + kind),
            "many": np.array([kind % 2, kind]),
            "on": np.array([kind == 0, kind == 1], np.int8),
        }


class Hooked(Noisy):
    """Keeps its state where only its own `get_rl_state` finds it."""

    def __init__(self) -> None:
        super().__init__()
        self._hidden = iter([0.0])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        result = super().reset(seed=seed, options=options)
        self._hidden = _counter(0)
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, _, terminated, truncated, info = super().step(action)
        return obs, next(self._hidden), terminated, truncated, info

    def get_rl_state(self) -> dict[str, Any]:
        return {"at": self._at.copy(), "steps": self._steps}

    def set_rl_state(self, tree: dict[str, Any]) -> None:
        self._at, self._steps = np.array(tree["at"]), tree["steps"]
        self._hidden = _counter(self._steps)


def _counter(start: int) -> Any:
    while True:
        yield float(start)
        start += 1


class Faulty(Noisy):
    """Fails at a step: `how` is raise, exit, segv, kill, hang or nan. With `seed`, only where reset with that one."""

    def __init__(self, how: str = "raise", at_step: int = 3, seed: int | None = None) -> None:
        super().__init__()
        self._how, self._at_step, self._only, self._seed = how, at_step, seed, seed

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._seed = seed if seed is not None else self._seed
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = super().step(action)
        if self._steps == self._at_step and self._only in (None, self._seed):
            if self._how == "raise":
                raise ZeroDivisionError("the wheel came off")
            if self._how == "exit":
                os._exit(7)
            if self._how == "segv":
                os.kill(os.getpid(), signal.SIGSEGV)
            if self._how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self._how == "hang":
                time.sleep(3600)
            if self._how == "nan":
                obs = np.full(2, np.nan, np.float32)
        return obs, reward, terminated, truncated, info


class FourValues(Noisy):
    """Old gym: (obs, reward, done, info)."""

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated or truncated, info


class WrongShape(Noisy):
    """The observation of `step` has another shape than the space."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, *rest = super().step(action)
        return np.append(obs, np.float32(0.0)), *rest


class WrongDtype(Noisy):
    """float64 observations in a float32 space."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        obs, info = super().reset(seed=seed, options=options)
        return obs.astype(np.float64), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, *rest = super().step(action)
        return obs.astype(np.float64), *rest


class OutsideSpace(Noisy):
    """Observations beyond the bounds of the space."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, *rest = super().step(action)
        return obs + np.float32(5.0), *rest


class NanObservation(Faulty):
    """NaN in an observation."""

    def __init__(self) -> None:
        super().__init__("nan")


class NanReward(Noisy):
    """A reward that is not a number."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, _, *rest = super().step(action)
        return obs, float("nan"), *rest


class ArrayReward(Noisy):
    """A reward that is an array."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, *rest = super().step(action)
        return obs, np.array([reward, reward]), *rest


class FlagsNotBool(Noisy):
    """terminated is a number."""

    def step(self, action: Any) -> tuple[Any, Any, Any, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, float(terminated), truncated, info


class InfoNotDict(Noisy):
    """info is a list."""

    def step(self, action: Any) -> Any:
        return *super().step(action)[:4], []


class ResetWithoutInfo(Noisy):
    """reset returns the observation alone."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return super().reset(seed=seed, options=options)[0]


class ResetWithoutSeed(Noisy):
    """reset takes no seed."""

    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


class NotDeterministic(Noisy):
    """Ignores the seed."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return super().reset(options=options)


class NoSpaces(Noisy):
    """Has no action space."""

    def __init__(self) -> None:
        super().__init__()
        del self.action_space


class OddSpace(Noisy):
    """An observation space that no policy reads."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = gym.spaces.Text(5)


class UnboundedAction(Noisy):
    """Actions without bounds: they are passed on unscaled."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)


class NeverEnds(Noisy):
    """Neither terminates nor truncates."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, _, _, info = super().step(action)
        return obs, reward, False, False, info


class SharedObservation(Noisy):
    """Returns the same array every time and changes it later."""

    def __init__(self) -> None:
        super().__init__()
        self._buffer = np.zeros(2, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        obs, info = super().reset(seed=seed, options=options)
        self._buffer[:] = obs
        return self._buffer, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, *rest = super().step(action)
        self._buffer[:] = obs
        return self._buffer, *rest


class ChannelsLast(Noisy):
    """Images with the channels last."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = gym.spaces.Box(0, 255, (8, 8, 3), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        _, info = super().reset(seed=seed, options=options)
        return self._image(), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        _, *rest = super().step(action)
        return self._image(), *rest

    def _image(self) -> Any:
        return np.full((8, 8, 3), self._steps, np.uint8)


class RaisesAfterReset(Noisy):
    """Fails in its second episode."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if self._steps:
            raise RuntimeError("only one episode")
        return super().reset(seed=seed, options=options)
