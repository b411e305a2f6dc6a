"""What runs first in a worker process: signals, crash stacks, and the watch for a parent that is gone."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import gymnasium as gym

STACK_SIGNAL = getattr(signal, "SIGUSR2", None)  # absent on Windows: no stack of a hung worker there


class WorkerStart:
    """Builds the sub-environment; in a worker process it first sets up signals, crash stacks and the parent watch."""

    def __init__(self, make: Callable[[], gym.Env[Any, Any]], parent: int, log: Path) -> None:
        self.make, self.parent, self.log = make, parent, log

    def __call__(self) -> gym.Env[Any, Any]:
        if os.getpid() == self.parent:
            return self.make()  # AsyncVectorEnv builds one in the parent, to see its spaces
        log = self.log.open("a")
        _set_up_worker(log, self.parent)
        try:
            return self.make()
        except Exception as error:
            print(f"{type(error).__name__}: {error}", file=log, flush=True)
            raise


def _set_up_worker(log: IO[str], parent: int) -> None:
    # Ctrl-C and scheduler signals reach the whole process group; only the parent decides what they mean. Handlers
    # that a forked worker inherited must go, or `terminate` would only set a flag in it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "SIGUSR1"):
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    faulthandler.enable(log, all_threads=False)
    if STACK_SIGNAL is not None:
        faulthandler.register(STACK_SIGNAL, log, all_threads=False)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """A parent killed with SIGKILL cannot end its workers, so each looks for itself."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
