"""What a run tells about itself: a snapshot for the progress view, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rl_training.experiment.progress import Status
from rl_training.experiment.records import Records
from rl_training.runtime.evaluator import Evaluation
from rl_training.runtime.trainer import Trainer


@dataclass(frozen=True)
class TrainResult:
    """Where a run is and how it ended."""

    run_dir: Path
    checkpoint_path: Path
    metrics: dict[str, float]
    evaluation: Evaluation | None


def final_metrics(trainer: Trainer, records: Records) -> dict[str, float]:
    """Counters, and the last evaluation's mean, deviation and (where it is told) part of successful episodes."""
    metrics = {"global_step": float(trainer.env_steps), "updates": float(trainer.learner.updates)}
    if records.evaluation is not None:
        metrics |= {"eval/mean": records.evaluation.mean, "eval/std": records.evaluation.std}
        if records.evaluation.success_rate is not None:
            metrics["eval/success_rate"] = records.evaluation.success_rate
    return metrics


def status(trainer: Trainer, records: Records, rate: float, saved: int | None) -> Status:
    """The state of a run for people."""
    return Status(
        clock=trainer.clock,
        end=trainer.end,
        unit="updates" if trainer.offline else "steps",
        per_second=rate,
        train_return=records.recent_return(),
        evaluation=str(records.evaluation or ""),
        best="" if records.best is None else f"{records.best:.1f}",
        checkpoint=saved,
        shares=trainer.timing.shares(),
    )
