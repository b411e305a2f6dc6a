"""Worker processes under supervision: one that dies, hangs or raises is named, and none outlives its parent."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from rl_training.envs.failures import EpisodeClock, action_text, env_failure
from rl_training.envs.worker_process import STACK_SIGNAL, WorkerStart
from rl_training.errors import EnvError, UserError

_CLOSE_SECONDS = 5.0
_STACK_LINES = 10


class SupervisedAsyncVectorEnv(gym.vector.AsyncVectorEnv[Any, Any]):
    """One process per sub-environment with shared-memory observations; an ended one is reset within the same step.

    Every failure is an EnvError that names the sub-environment, what happened to it and where its episode was. A
    worker that needs longer than `step_timeout` seconds for a step or reset counts as hung. After a failure all
    workers are ended.
    """

    def __init__(
        self, env_fns: Sequence[Callable[[], gym.Env[Any, Any]]], copy: bool = True, step_timeout: float | None = 60.0
    ) -> None:
        self.step_timeout = step_timeout
        self._clock = EpisodeClock(len(env_fns))
        self._actions: Any = [None] * len(env_fns)
        self._logs = tempfile.TemporaryDirectory(prefix="rl-training-workers-")
        starts = [WorkerStart(make, os.getpid(), self._log(index)) for index, make in enumerate(env_fns)]
        try:
            super().__init__(starts, shared_memory=True, copy=copy, autoreset_mode=AutoresetMode.SAME_STEP)
        except BaseException as error:
            if isinstance(error, EOFError | OSError) and getattr(self, "processes", []):
                raise self._died("start") from error
            self._end_workers()
            raise
        self.env_fns = env_fns  # as given, not as wrapped for the workers

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        seeds = self._clock.reset(seed, (options or {}).get("reset_mask", np.ones(self.num_envs, np.bool_)))
        with self._supervised("reset"):
            self.reset_async(seed=seeds, options=options)
            return self.reset_wait(self.step_timeout)

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        self._clock.steps += 1
        self._actions = actions
        with self._supervised("step"):
            self.step_async(actions)
            result = self.step_wait(self.step_timeout)
        for index in np.flatnonzero(result[4].get("_final_obs", ())):
            self._clock.began(int(index))
        return result

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        with self._supervised(name):
            return super().call(name, *args, **kwargs)

    def set_attr(self, name: str, values: Any) -> None:
        with self._supervised(name):
            super().set_attr(name, values)

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        """End all workers: politely where they answer, and within seconds in any case."""
        if not terminate:
            for pipe in self.parent_pipes:
                if pipe is not None and not pipe.closed:
                    with contextlib.suppress(OSError):
                        pipe.send(("close", None))
        self._end_workers(0.0 if terminate else timeout if timeout is not None else _CLOSE_SECONDS)

    @contextlib.contextmanager
    def _supervised(self, command: str) -> Any:
        try:
            yield
        except multiprocessing.TimeoutError as error:
            raise self._hung(command) from error
        except (EOFError, OSError) as error:
            raise self._died(command) from error

    def _raise_if_errors(self, successes: Iterable[bool]) -> None:
        if all(successes):
            return
        index, kind, value, trace = self.error_queue.get(timeout=_CLOSE_SECONDS)
        error = value if isinstance(value, BaseException) else kind(value)
        self._abandon()
        if isinstance(error, UserError):
            raise error
        where, action = self._clock.where(index), self._actions[index]
        raise env_failure("the environment", index, self.num_envs, where, action, error, trace) from error

    def _died(self, command: str) -> EnvError:
        """The error for the worker that is gone, with how it ended and what it was doing."""
        deadline = time.monotonic() + 1.0
        while (dead := [i for i, p in enumerate(self.processes) if p.exitcode is not None]) == []:
            if time.monotonic() > deadline:
                break  # its pipe is closed, but the process is not reaped yet
            time.sleep(0.01)
        index = dead[0] if dead else 0
        code = self.processes[index].exitcode
        how = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
        stack = self._read_log(index)
        self._abandon()
        return EnvError(
            f"env {index} of {self.num_envs} died ({how}) in {command}.",
            f"{self._place(index)}" + (f"\n{stack}" if stack else ""),
            "SIGKILL is mostly the system running out of memory; for other crashes try env.backend: sync.",
        )

    def _hung(self, command: str) -> EnvError:
        index = next((i for i, pipe in enumerate(self.parent_pipes) if not pipe.poll(0)), 0)
        stack = ""
        if STACK_SIGNAL is not None and (pid := self.processes[index].pid) is not None:
            os.kill(pid, STACK_SIGNAL)
            deadline = time.monotonic() + 1.0
            while not (stack := self._read_log(index)) and time.monotonic() < deadline:
                time.sleep(0.02)
        self._abandon()
        return EnvError(
            f"env {index} of {self.num_envs} hangs: no answer to {command} within {self.step_timeout:g} s.",
            f"{self._place(index)}" + (f"\nIts worker is at:\n{stack}" if stack else ""),
            "Raise env.step_timeout if its steps may take so long.",
        )

    def _place(self, index: int) -> str:
        return f"At {self._clock.where(index)}, last action {action_text(self._actions[index])}."

    def _log(self, index: int) -> Path:
        return Path(self._logs.name) / f"{index}.txt"

    def _read_log(self, index: int) -> str:
        """What the worker left: the innermost frames of its stack, or why its environment could not be built."""
        lines = self._log(index).read_text(errors="replace").strip().splitlines()
        return "\n".join(lines[:_STACK_LINES])

    def _abandon(self) -> None:
        """After a failure the remaining workers are of no use: their episodes are out of step."""
        self._end_workers()
        self.closed = True

    def _end_workers(self, patience: float = 0.0) -> None:
        deadline = time.monotonic() + patience
        for process in getattr(self, "processes", []):
            process.join(max(deadline - time.monotonic(), 0.0))
            if process.is_alive():
                process.kill()
                process.join()
        for pipe in getattr(self, "parent_pipes", []):
            if pipe is not None:
                pipe.close()
        self._logs.cleanup()
