"""What a run writes while it goes: metrics, episodes and evaluations as JSON lines (the truth), and TensorBoard events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rl_training._atomic import AppendFile
from rl_training.config import LoggingConfig
from rl_training.state import Tree

FILES = {"metrics": "metrics.jsonl", "episodes": "episodes.jsonl", "evaluations": "evaluations.jsonl"}


class Logger:
    """Rows carry a sequence number. A checkpoint stores the length of each file, and resuming cuts later rows off,
    so every row exists exactly once however often a run was killed."""

    def __init__(self, run_dir: Path, config: LoggingConfig, state: dict[str, Tree] | None = None) -> None:
        self.config, self.run_dir = config, run_dir
        self.rows = dict.fromkeys(FILES, 0) if state is None else dict(state["rows"])
        lengths = dict.fromkeys(FILES, None) if state is None else state["lengths"]
        self._files = {key: AppendFile(run_dir / name, keep=lengths[key]) for key, name in FILES.items()}
        self._board: Any = None
        self._purge = None if state is None else state["board_step"]
        self._last_step = 0 if state is None else state["board_step"] - 1

    def write(self, kind: str, *rows: dict[str, Any]) -> None:
        """Append rows to metrics, episodes or evaluations, in one write."""
        first = self.rows[kind]
        lines = [json.dumps({"seq": first + i, **row}, separators=(",", ":")) for i, row in enumerate(rows)]
        self._files[kind].write("".join(f"{line}\n" for line in lines).encode())
        self.rows[kind] += len(rows)

    def scalars(self, step: int, values: dict[str, float]) -> None:
        """Send values to TensorBoard, if it is wanted."""
        if not self.config.tensorboard:
            return
        if self._board is None:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(self.run_dir / "tensorboard"), purge_step=self._purge)
        for name, value in values.items():
            self._board.add_scalar(name, value, step)
        self._last_step = step

    def state_dict(self) -> dict[str, Tree]:
        """Lengths of what is durable; call it in the same breath as the checkpoint."""
        lengths = {key: file.sync() for key, file in self._files.items()}
        return {"rows": dict(self.rows), "lengths": lengths, "board_step": self._last_step + 1}

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        if self._board is not None:
            self._board.close()
