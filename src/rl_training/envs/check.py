"""Step an environment with random actions and report where it breaks the Gymnasium contract."""

from __future__ import annotations

import copy
import time
import traceback
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from rl_training.envs.capture import for_source
from rl_training.envs.contract import Contract, Finding, PointlessToGoOn
from rl_training.envs.factory import EnvName, make_env
from rl_training.envs.families import family_method
from rl_training.envs.snapshot import obs_hash

_STEPS, _SECONDS = 1000, 5.0
_DETERMINISM_STEPS = 50


@dataclass(frozen=True)
class Report:
    """What `check_env` found, how the environment resumes, and its speed alone (0 when it could not be stepped)."""

    name: str
    findings: tuple[Finding, ...]
    capture: str
    steps_per_second: float

    @property
    def ok(self) -> bool:
        """True when nothing is wrong (warnings may remain)."""
        return not any(finding.severity == "error" for finding in self.findings)

    def __str__(self) -> str:
        lines = [f"{f.severity}: {f.what}\n  {f.fix}" for f in self.findings] or ["no findings"]
        return "\n".join([self.name, *lines, f"resume: {self.capture}", f"speed: {self.steps_per_second:,.0f} steps/s"])


def check_env(env: EnvName | gym.Env[Any, Any], kwargs: dict[str, Any] | None = None) -> Report:
    """Report every breach of the contract once, with what to change.

    `env` is a name or callable as for `make_env`, or an environment. How its state is captured for resuming is only
    found out for the former: that needs to build it again in another process.
    """
    made = env if isinstance(env, gym.Env) else make_env(env, kwargs=kwargs)
    name = type(made.unwrapped).__name__
    run = _Run(made, Contract(name))
    speed = run.all()
    findings = tuple(run.contract.findings)
    capture = "not exact: not checked"
    if not isinstance(env, gym.Env) and all(finding.severity != "error" for finding in findings):
        capture = for_source(env, kwargs or {}, family_method(made)).label
    return Report(env if isinstance(env, str) else name, findings, capture, speed)


class _Run:
    """Drives one environment through the contract."""

    def __init__(self, env: gym.Env[Any, Any], contract: Contract) -> None:
        self.env, self.contract = env, contract

    def all(self) -> float:
        """Check everything; returns steps per second."""
        speed = 0.0
        try:
            self.contract.spaces(self.env)
            # A copy has its own generator: sampling does not touch the environment's.
            self.actions = copy.deepcopy(self.env.action_space)
            self.actions.seed(0)
            speed = self._rollout()
            self._determinism()
        except PointlessToGoOn:
            pass
        return speed

    def _rollout(self) -> float:
        first = self._reset(0)
        before = obs_hash(first)
        deadline, spent, steps, ends = time.monotonic() + _SECONDS, 0.0, 0, 0
        while steps < _STEPS and time.monotonic() < deadline:
            action = self.actions.sample()
            started = time.perf_counter()
            result = self._call("step", action)
            spent += time.perf_counter() - started
            steps += 1
            if self.contract.step(self.env.observation_space, result):
                ends += 1
                self._reset(None)
            if steps == 1 and obs_hash(first) != before:
                self.contract.warn(
                    f"{self.contract.name} changes an observation after it has returned it.",
                    "Return a new array each time, e.g. self._obs.copy().",
                )
        if ends == 0:
            self.contract.warn(
                f"No episode of {self.contract.name} ended in {steps:,} random steps.",
                "Set truncated at a time limit: gymnasium.wrappers.TimeLimit(env, max_episode_steps).",
            )
        return steps / max(spent, 1e-9)

    def _determinism(self) -> None:
        actions = [self.actions.sample() for _ in range(_DETERMINISM_STEPS)]
        one, two = self._trajectory(actions), self._trajectory(actions)
        if one != two:
            at = next((i for i, (a, b) in enumerate(zip(one, two)) if a != b), min(len(one), len(two)))
            self.contract.warn(
                f"Two episodes with the same seed and actions differ at step {at}.",
                "Draw all randomness from self.np_random and call super().reset(seed=seed) in reset.",
            )

    def _trajectory(self, actions: list[Any]) -> list[str]:
        steps = [obs_hash(self._reset(11))]
        for action in actions:
            obs, reward, terminated, truncated, _ = self._call("step", action)
            steps.append(f"{obs_hash(obs)} {float(reward)!r} {terminated}")
            if terminated or truncated:
                break
        return steps

    def _reset(self, seed: int | None) -> Any:
        return self.contract.reset(self.env.observation_space, self._call("reset", seed=seed))

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return getattr(self.env, method)(*args, **kwargs)
        except Exception as error:
            if method == "reset" and isinstance(error, TypeError) and "argument" in str(error):
                self.contract.stop(
                    f"{self.contract.name}.reset does not take seed and options.",
                    "Write def reset(self, *, seed=None, options=None) and call super().reset(seed=seed).",
                )
            if "values to unpack (expected 5" in str(error):  # a wrapper unpacked before we could
                self.contract.not_five(str(error))
            where = traceback.extract_tb(error.__traceback__)[-1]
            self.contract.stop(
                f"{self.contract.name}.{method} raised {type(error).__name__}: {error}",
                f"See {where.filename}:{where.lineno}: {where.line}",
            )
