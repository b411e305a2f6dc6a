"""Callbacks: look on, and stop a run if need be. They never change what is learned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from rl_training.errors import ConfigError
from rl_training.runtime.rng import preserved

if TYPE_CHECKING:
    from rl_training.experiment.manager import Run
    from rl_training.runtime.evaluator import Evaluation


class Callback:
    """Override what you need. `run` gives steps, metrics, the agent and the run directory; `run.stop("why")` ends it."""

    def on_step(self, run: Run) -> None:
        """After every tick of collecting and learning."""

    def on_evaluation(self, run: Run, evaluation: Evaluation) -> None:
        """After every evaluation."""

    def on_checkpoint(self, run: Run, path: Path) -> None:
        """After a checkpoint was written."""

    def on_end(self, run: Run) -> None:
        """Once, when training has finished (not when it was interrupted or failed)."""


Callbacks: TypeAlias = Callback | Sequence[Callback]


class CallbackList(Callback):
    """One callback or several. They look on: what they draw from the global generators does not reach training."""

    def __init__(self, given: Callbacks) -> None:
        self.members = [given] if isinstance(given, Callback) else list(given)
        for callback in self.members:
            if not isinstance(callback, Callback):
                raise ConfigError(f"{callback!r} is not a callback.", fix="Derive from rl_training.Callback and override on_step")
        # Setting the generators aside costs about 0.1 ms, as much as a small env step: only for those who look at every one.
        self.steppers = [callback for callback in self.members if type(callback).on_step is not Callback.on_step]

    def on_step(self, run: Run) -> None:
        if self.steppers:
            self._tell(lambda callback: callback.on_step(run), self.steppers)

    def on_evaluation(self, run: Run, evaluation: Evaluation) -> None:
        self._tell(lambda callback: callback.on_evaluation(run, evaluation), self.members)

    def on_checkpoint(self, run: Run, path: Path) -> None:
        self._tell(lambda callback: callback.on_checkpoint(run, path), self.members)

    def on_end(self, run: Run) -> None:
        self._tell(lambda callback: callback.on_end(run), self.members)

    def _tell(self, event: Callable[[Callback], None], members: list[Callback]) -> None:
        if members:
            with preserved():
                for callback in members:
                    event(callback)


class StopOnReturn(Callback):
    """End the run as soon as an evaluation reaches `threshold`."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def on_evaluation(self, run: Run, evaluation: Evaluation) -> None:
        if evaluation.mean >= self.threshold:
            run.stop(f"evaluation return {evaluation.mean:.1f} reached {self.threshold:g}")
