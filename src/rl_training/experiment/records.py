"""What a run knows of its own course: recent episodes, evaluations, the best of them, and the rows it writes."""

from __future__ import annotations

import dataclasses
from collections import deque
from pathlib import Path

import numpy as np

from rl_training.config import LoggingConfig
from rl_training.experiment.logging import Logger
from rl_training.runtime.collector import Collector, Episode
from rl_training.runtime.evaluator import Evaluation
from rl_training.runtime.trainer import Trainer
from rl_training.state import Tree

RECENT = 100  # episodes in the running mean of training returns


class Records:
    """Writes episodes, metrics and evaluations, and remembers what decides the best checkpoint."""

    def __init__(self, run_dir: Path, config: LoggingConfig, state: dict[str, Tree] | None) -> None:
        self.logger = Logger(run_dir, config, None if state is None else state["logger"])
        self.recent: deque[Episode] = deque((Episode(*row) for row in state["recent"]) if state else (), RECENT)
        self.best: float | None = None if state is None else state["best"]
        last = None if state is None else state["evaluation"]
        self.evaluation = None if last is None else Evaluation(**last)

    def episodes(self, collector: Collector | None) -> None:
        """Write the episodes that ended since the last tick."""
        if collector is not None and (ended := collector.drain_episodes()):
            self.recent.extend(ended)
            self.logger.write("episodes", *({k: v for k, v in vars(e).items() if v is not None} for e in ended))

    def metrics(self, trainer: Trainer, rate: float) -> None:
        """Write a row of means since the last one; `time/` entries are the only ones that differ between equal runs."""
        row: dict[str, float] = {f"train/{name}": value for name, value in trainer.learner.metrics().items()}
        if self.recent:
            row["rollout/ep_rew_mean"] = float(np.mean([e.total for e in self.recent]))
            row["rollout/ep_len_mean"] = float(np.mean([e.length for e in self.recent]))
            if (told := [e.success for e in self.recent if e.success is not None]):
                row["rollout/success_rate"] = float(np.mean(told))
        times = {f"time/{name}": round(share, 4) for name, share in trainer.timing.shares().items()}
        times["time/fps"] = round(rate, 1)
        head = {"step": trainer.clock, "env_steps": trainer.env_steps, "updates": trainer.learner.updates}
        self.logger.write("metrics", head | row | times)
        self.logger.scalars(trainer.clock, row | times)

    def evaluated(self, step: int, result: Evaluation) -> bool:
        """Write an evaluation; tells whether it is the best so far."""
        self.evaluation = result
        improved = self.best is None or result.mean > self.best
        self.best = result.mean if improved else self.best
        row = {"step": step, "mean": result.mean, "std": result.std, "returns": result.returns, "lengths": result.lengths}
        success = {} if result.success_rate is None else {"success_rate": result.success_rate}
        self.logger.write("evaluations", row | success)
        self.logger.scalars(step, {f"eval/{k}": v for k, v in ({"mean_reward": result.mean} | success).items()})
        return improved

    def recent_return(self) -> float | None:
        """Mean training return of the last episodes."""
        return float(np.mean([e.total for e in self.recent])) if self.recent else None

    def state_dict(self) -> dict[str, Tree]:
        return {
            "logger": self.logger.state_dict(),
            "recent": [list(dataclasses.astuple(e)) for e in self.recent],
            "best": self.best,
            "evaluation": None if self.evaluation is None else dataclasses.asdict(self.evaluation),
        }
