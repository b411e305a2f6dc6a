"""Run directories: made without ever overwriting one, described in `run.json`, and found again by name."""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from rl_training import _atomic
from rl_training.errors import ConfigError
from rl_training.experiment.lock import RunLock, is_locked
from rl_training.experiment.provenance import describe_process
from rl_training.experiment.retention import list_checkpoints, short_name

__all__ = ["RunLock", "RunSummary", "find_runs", "make_run_dir", "read_run_info", "resolve_run", "write_run_info"]

RUN_INFO = "run.json"
_MAX_INFO_BYTES = 2**20


class RunConfig(Protocol):
    """What names a run."""

    @property
    def algo(self) -> str: ...
    @property
    def env_id(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def output_dir(self) -> str | Path: ...


@dataclass(frozen=True)
class RunSummary:
    """One line of a list of runs."""

    path: Path
    status: str
    step: int
    started: str

    def __str__(self) -> str:
        return f"{self.path} ({self.status}, {self.step:,} steps)"


def make_run_dir(cfg: RunConfig) -> Path:
    """Create `output_dir/ppo__CartPole-v1__seed7__20261118T215959Z`; a name in use gets a suffix: -2, -3."""
    root = Path(cfg.output_dir)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    name = f"{slug(cfg.algo)}__{slug(cfg.env_id)}__seed{slug(str(cfg.seed))}__{stamp}"
    _atomic.make_dir(root)
    attempt = 1
    while not _atomic.make_new_dir(path := root / (name if attempt == 1 else f"{name}-{attempt}")):
        attempt += 1
    return path


def slug(text: str) -> str:
    """A part of a file name: `ALE/Pong-v5` becomes `ALE-Pong-v5`, and nothing can leave the folder."""
    return re.sub(r"[^A-Za-z0-9._-]+|\.{2,}", "-", text)[:60].strip("-._") or "x"


def write_run_info(run_dir: Path, **fields: Any) -> dict[str, Any]:
    """Set fields of `run.json`. The first call also records command line, code, versions, machine and start time."""
    info = read_run_info(run_dir) or describe_process(run_dir)
    info |= fields
    _atomic.write_bytes(run_dir / RUN_INFO, (json.dumps(info, indent=2, default=str) + "\n").encode())
    return info


def read_run_info(run_dir: Path) -> dict[str, Any]:
    """The content of `run.json`; empty when there is none that can be read."""
    path = run_dir / RUN_INFO
    try:
        if path.stat().st_size > _MAX_INFO_BYTES:
            return {}
        info = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return info if isinstance(info, dict) else {}


def find_runs(root: Path) -> list[RunSummary]:
    """The runs in a folder and in its subfolders, newest first."""
    paths = {path.parent for pattern in (f"*/{RUN_INFO}", f"*/*/{RUN_INFO}") for path in root.glob(pattern)}
    return sorted((_summary(path) for path in paths), key=lambda run: (run.started, run.path.name), reverse=True)


def resolve_run(path_or_name: str | Path, root: Path) -> Path:
    """The run at a path (or around it, for a path inside a run), with a name under `root`, or the only one that begins so."""
    for candidate in (Path(path_or_name), root / path_or_name):
        for folder in (candidate, *candidate.parents):
            if candidate.exists() and (folder / RUN_INFO).is_file():
                return folder
    runs = find_runs(root)
    name = str(path_or_name)
    begins = [run for run in runs if name and run.path.name.startswith(name)]
    for found in ([run for run in begins if run.path.name == name], begins):
        if len(found) == 1:
            return found[0].path
    nearest = _nearest(Path(path_or_name).name, runs)
    raise ConfigError(
        f"No run at '{path_or_name}'.",
        "Nearest: " + "; ".join(map(str, nearest)) if nearest else f"There are no runs in {root}.",
        f"Did you mean {nearest[0].path}?" if nearest else "Start one with: rl-training train ppo CartPole-v1",
    )


def _summary(path: Path) -> RunSummary:
    info = read_run_info(path)
    status = str(info.get("status", "unknown"))
    if status == "running" and not is_locked(path):
        status = "killed"  # nobody was left to write another status
    checkpoints = list_checkpoints(path / "checkpoints")
    saved = int(short_name(checkpoints[-1]).removeprefix("step_")) if checkpoints else 0
    step = info.get("step", 0)
    return RunSummary(path, status, max(saved, step if isinstance(step, int) else 0), str(info.get("started", "")))


def _nearest(name: str, runs: list[RunSummary], count: int = 3) -> list[RunSummary]:
    def likeness(run: RunSummary) -> float:
        return difflib.SequenceMatcher(None, name.lower(), run.path.name.lower()).ratio()

    return sorted(runs, key=likeness, reverse=True)[:count]
