"""Which checkpoints of a run exist, which stay, and where damaged ones go.

A published folder is never changed. When a resumed run reaches a step again, its checkpoint is published as
`step_000012000-2` and supersedes the earlier attempt, which is removed once the new one has been verified.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from rl_training import _atomic
from rl_training.errors import CheckpointError, StorageError
from rl_training.experiment.manifest import read_manifest

_NAME = re.compile(r"step_([0-9]{9,})(?:-([1-9][0-9]*))?")


def list_checkpoints(folder: Path) -> list[Path]:
    """All published checkpoints, oldest first."""
    found = [(_step_and_attempt(path), path) for path in folder.glob("step_*") if _NAME.fullmatch(path.name)]
    return [path for _, path in sorted(found)]


def short_name(path: Path) -> str:
    """The step as messages show it: step_12000."""
    return f"step_{_step_and_attempt(path)[0]}"


def free_name(folder: Path, step: int) -> Path:
    """The folder that a new checkpoint of this step is published as; it sorts after the earlier attempts."""
    names = map(_step_and_attempt, list_checkpoints(folder))
    attempt = 1 + max((attempt for other, attempt in names if other == step), default=0)
    return folder / (f"step_{step:09d}" if attempt == 1 else f"step_{step:09d}-{attempt}")


def find_best(folder: Path) -> Path | None:
    """The newest checkpoint that was saved as the best so far."""
    for path in reversed(list_checkpoints(folder)):
        with suppress(CheckpointError):
            if read_manifest(path)["best"]:
                return path
    return None


def prune(folder: Path, keep: int, newest: Path) -> None:
    """Remove all but the last `keep` steps, the best, and `newest`, which the caller has just verified."""
    by_step = {short_name(path): path for path in list_checkpoints(folder)}  # the last attempt of each step
    kept = {newest, find_best(folder), *list(by_step.values())[-keep:]}
    for path in list_checkpoints(folder):
        if path not in kept:
            _atomic.remove_tree(path)


def set_aside(path: Path) -> None:
    """Rename a damaged checkpoint to `.corrupt-*`, for a person to look at; it is not read again."""
    target, number = path.with_name(f".corrupt-{path.name}"), 1
    while target.exists():
        number += 1
        target = path.with_name(f".corrupt-{path.name}.{number}")
    with suppress(StorageError):  # a reader without write permission passes it over each time
        _atomic.rename(path, target)


def _step_and_attempt(path: Path) -> tuple[int, int]:
    match = _NAME.fullmatch(path.name)
    if match is None:
        raise ValueError(f"{path.name} is not the name of a checkpoint")
    return int(match[1]), int(match[2] or 1)
