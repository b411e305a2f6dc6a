"""What an environment failure says: which sub-environment, what it raised, and how to reach that point again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rl_training.errors import EnvError


class EpisodeClock:
    """Which seed and which step every sub-environment is at, counted once per vector step so that it costs nothing."""

    def __init__(self, num_envs: int) -> None:
        self.steps = 0
        self._began = [0] * num_envs
        self._episodes = [0] * num_envs
        self._seeds: list[int | None] = [None] * num_envs

    def reset(self, seed: int | Sequence[int | None] | None, mask: np.ndarray) -> list[int | None]:
        """Note a reset of the sub-environments in `mask`, and return the seed of each: an int counts up from `seed`."""
        count = len(self._began)
        seeds = (
            [None if seed is None else seed + i for i in range(count)] if isinstance(seed, int | None) else list(seed)
        )
        for index in map(int, np.flatnonzero(mask)):
            self.began(index)
            if seeds[index] is not None:
                self._seeds[index], self._episodes[index] = seeds[index], 0
        return seeds

    def began(self, index: int) -> None:
        """Note that sub-environment `index` starts an episode after the current step."""
        self._began[index] = self.steps
        self._episodes[index] += 1

    def where(self, index: int) -> str:
        """Where sub-environment `index` is, in words."""
        episode = f"step {self.steps - self._began[index]:,}"
        if self._seeds[index] is None:
            return f"{episode} of an episode that was reset without a seed"
        after = f", {self._episodes[index]} episodes after its seeded reset" if self._episodes[index] else ""
        return f"{episode} of episode seed {self._seeds[index]}{after}"


def env_failure(
    name: str, index: int, num_envs: int, where: str, action: Any, error: BaseException, trace: str = ""
) -> EnvError:
    """The EnvError for an exception that sub-environment `index`, a `name`, raised; `action` is None in reset."""
    if isinstance(error, ValueError) and "values to unpack (expected 5" in str(error):
        return EnvError(
            f"{name}.step did not return 5 values ({error}).",
            "Gymnasium needs 5: (obs, reward, terminated, truncated, info).",
            "Return terminated (the task ended) and truncated (a time limit) apart; see: rl-training check-env",
        )
    doing = "in reset" if action is None else f"action {action_text(action)}"
    return EnvError(
        f"env {index} of {num_envs} raised {type(error).__name__}: {error}",
        f"At {where}, {doing}." + (f"\n{trace.rstrip()}" if trace else ""),
        f"Reproduce: reset {name} with that seed and take the same actions; see: rl-training check-env",
    )


def action_text(action: Any) -> str:
    """An action in one short line."""
    return np.array2string(np.asarray(action), threshold=20, separator=", ").replace("\n", "")
