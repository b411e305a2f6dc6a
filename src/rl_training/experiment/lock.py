"""One writer per run: a lock that the kernel releases when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from rl_training.errors import LockedError, StorageError

LOCK_NAME = "run.lock"


class RunLock:
    """Hold a run for writing: `with RunLock(run_dir): ...`; LockedError when another process holds it."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self._descriptor = -1

    def acquire(self) -> None:
        try:
            self._descriptor = os.open(self.run_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StorageError(f"Cannot lock {self.run_dir}: {error.strerror}.") from error
        # `is_locked` holds the lock for an instant when it looks, hence several attempts.
        for _ in range(10):
            if _try_lock(self._descriptor):
                break
            time.sleep(0.02)
        else:
            self.release()
            holder = _read_holder(self.run_dir)
            raise LockedError(
                f"{self.run_dir} is in use by pid {holder.get('pid', '?')} on host {holder.get('host', '?')} "
                f"since {holder.get('since', '?')}.",
                fix="Wait for it, or choose another run: rl-training list runs",
            )
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, json.dumps(holder).encode(), 0)
        # A forked environment worker that outlives a killed parent must not keep the run locked.
        os.register_at_fork(after_in_child=self.release)

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> RunLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def is_locked(run_dir: Path) -> bool:
    """Whether some process, this one included, is writing the run."""
    try:
        descriptor = os.open(run_dir / LOCK_NAME, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _try_lock(descriptor)
    finally:
        os.close(descriptor)


def is_locked_by_another(run_dir: Path) -> bool:
    """Whether a process other than this one is writing the run."""
    if not is_locked(run_dir):
        return False
    holder = _read_holder(run_dir)
    return (holder.get("pid"), holder.get("host")) != (os.getpid(), socket.gethostname())


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_holder(run_dir: Path) -> dict[str, Any]:
    try:
        holder = json.loads((run_dir / LOCK_NAME).read_text())
    except (OSError, ValueError):
        return {}
    return holder if isinstance(holder, dict) else {}
