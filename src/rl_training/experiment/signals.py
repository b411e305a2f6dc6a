"""Ctrl-C and SIGTERM ask for a checkpoint; a second one stops at once. SIGUSR1 asks for a checkpoint and goes on."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any


class Interrupted(KeyboardInterrupt):
    """Training was stopped by a signal after its state had been saved."""

    def __init__(self, number: int, run_dir: object, step: int) -> None:
        self.number = number
        self.exit_code = 128 + number
        super().__init__(f"saved step_{step}. Continue: rl-training resume {run_dir}")


class SignalWatch:
    """Notes signals while training; outside the main thread it watches nothing."""

    def __init__(self) -> None:
        self.stop: int | None = None
        self.checkpoint = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> SignalWatch:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGUSR1:
            self.checkpoint = True
            return
        if self.stop is not None:
            os._exit(128 + number)
        self.stop = number
        os.write(2, b"\nstopping after this update (again to stop now)...\n")
