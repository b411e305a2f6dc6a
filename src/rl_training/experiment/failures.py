"""What a run that met a non-finite number leaves behind for whoever has to find out why."""

from __future__ import annotations

import json
from pathlib import Path

from rl_training._atomic import make_dir, write_bytes
from rl_training.config import TrainConfig, to_dict
from rl_training.errors import NonFiniteError


def write(run_dir: Path, error: NonFiniteError, config: TrainConfig) -> None:
    """`failures/N.json`: where it happened, the steps that led there, and the settings; resuming the run meets it again."""
    folder = run_dir / "failures"
    make_dir(folder)
    path = folder / f"{sum(1 for _ in folder.glob('*.json'))}.json"
    record = {"error": str(error), **error.evidence, "config": to_dict(config), "reproduce": f"rl-training resume {run_dir}"}
    write_bytes(path, json.dumps(record, default=str).encode())
    error.fix = error.fix.replace("check-env ENV", f"check-env {config.env_id}") + f"\nThe steps that led there: {path}"
