"""Test episodes on their own envs and their own randomness: evaluating never changes training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rl_training.envs.adapter import EnvAdapter
from rl_training.runtime.acting import Actor
from rl_training.runtime.rng import derive


@dataclass(frozen=True)
class Evaluation:
    """Raw returns and lengths of test episodes, and whether each succeeded where the environment tells."""

    returns: list[float]
    lengths: list[int]
    successes: list[bool] | None = None

    @property
    def mean(self) -> float:
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        return float(np.std(self.returns))

    @property
    def success_rate(self) -> float | None:
        """Part of the episodes that ended in success; None where the environment does not tell."""
        return None if self.successes is None else float(np.mean(self.successes))

    def __str__(self) -> str:
        success = "" if self.success_rate is None else f", {self.success_rate:.0%} successful"
        return f"{self.mean:.1f} ± {self.std:.1f} over {len(self.returns)} episodes{success}"


class Evaluator:
    """Plays a fixed number of episodes per env, so that short episodes are not over-represented."""

    def __init__(self, envs: EnvAdapter, seed: int, deterministic: bool = True) -> None:
        self.envs, self.seed, self.deterministic = envs, seed, deterministic

    def evaluate(self, actor: Actor, episodes: int, index: int) -> Evaluation:
        """A pure function of the policy, the run's seed and `index` (the training step)."""
        seed = derive(self.seed, "evaluation", index)
        rng = np.random.default_rng(seed)
        actor.refresh()
        obs = self.envs.reset(seed)
        n = self.envs.num_envs
        quota = np.full(n, episodes // n) + (np.arange(n) < episodes % n)
        total, length = np.zeros(n), np.zeros(n, np.int64)
        returns: list[float] = []
        lengths: list[int] = []
        successes: list[bool] = []
        told = False
        while quota.any():
            result = self.envs.step(actor.act(obs, rng, index, explore=not self.deterministic))
            valid = np.ones(n, np.bool_) if result.valid is None else result.valid
            total += result.reward * valid
            length += valid
            for env in np.flatnonzero((result.terminated | result.truncated) & valid):
                if quota[env]:
                    quota[env] -= 1
                    returns.append(float(total[env]))
                    lengths.append(int(length[env]))
                    told = told or result.success is not None
                    successes.append(result.success is not None and bool(result.success[env]))
                total[env], length[env] = 0.0, 0
            obs = result.obs
        return Evaluation(returns, lengths, successes if told else None)
