"""Wires a run: envs, learner, collector, buffer and trainer in a run directory, with evaluation, logs and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from rl_training._atomic import write_bytes
from rl_training.agent import Agent
from rl_training.config import TrainConfig, dump_yaml
from rl_training.envs.adapter import EnvAdapter
from rl_training.errors import NonFiniteError, UserError
from rl_training.experiment import failures, prepare, results, resuming
from rl_training.experiment.callbacks import CallbackList, Callbacks
from rl_training.experiment.checkpointing import Checkpoint, CheckpointStore
from rl_training.experiment.envs import evaluation_envs, training_envs
from rl_training.experiment.progress import make_progress
from rl_training.experiment.records import Records
from rl_training.experiment.results import TrainResult
from rl_training.experiment.runs import RunLock, make_run_dir, resolve_run, write_run_info
from rl_training.experiment.signals import Interrupted, SignalWatch
from rl_training.runtime.acting import Actor
from rl_training.runtime.collector import Collector
from rl_training.runtime.learner import Learner
from rl_training.runtime.rng import GlobalRng, derive, preserved, seed_globals
from rl_training.runtime.trainer import Trainer
from rl_training.state import Stateful

SHOW_EVERY = 0.1  # seconds between updates of the progress view


class Run:
    """One training run in one directory. Callbacks may read agent, config, dir, trainer, learner and records."""

    trainer: Trainer
    learner: Learner
    records: Records

    def __init__(
        self,
        agent: Agent,
        config: TrainConfig,
        lock: RunLock,
        store: CheckpointStore,
        callbacks: CallbackList,
        checkpoint: Checkpoint | None,
    ) -> None:
        self.agent, self.config, self.dir, self.callbacks = agent, config, store.run_dir, callbacks
        self.progress = make_progress(self.config.logging.progress)
        self.lock, self.store = lock, store
        self.evaluation_envs: EnvAdapter | None = None
        self.stop_reason = ""
        self._resumed_from = checkpoint
        self._saved: tuple[int, Path] | None = None
        self._opened = False
        self._clock = self._first_clock = 0
        self._shown = 0.0

    @classmethod
    def create(cls, agent: Agent, callbacks: Callbacks = ()) -> Run:
        """A new run of an agent; the settings that were left to choose are chosen here and written down."""
        called = CallbackList(callbacks)
        config, notes = prepare.resolve(agent)
        directory = make_run_dir(config)
        write_bytes(directory / "config.yaml", dump_yaml(config).encode())
        lock = RunLock(directory)
        lock.acquire()
        return cls(agent, config, lock, CheckpointStore(directory, config.checkpoint.keep), called, None)._noting(notes)

    @classmethod
    def resume(
        cls, path: Path, kind: type[Agent] | None, env: Any, changes: dict[str, Any], callbacks: Callbacks = ()
    ) -> Run:
        """A run that continues from its newest valid checkpoint."""
        directory, called = resolve_run(path, Path("runs")), CallbackList(callbacks)
        lock = RunLock(directory)
        lock.acquire()  # before looking for the newest checkpoint: nobody else may be writing one
        try:
            store, agent, checkpoint, notes = resuming.reopen(directory, kind, env, changes)
        except BaseException:
            lock.release()
            raise
        return cls(agent, agent.config, lock, store, called, checkpoint)._noting(notes)

    def _noting(self, notes: Sequence[str]) -> Run:
        for note in notes:
            self.progress.say(note)
        return self

    def train(self) -> TrainResult:
        """Run to the end. The directory stays usable whatever happens."""
        with SignalWatch() as self.signals:
            try:
                c = self.config
                write_run_info(self.dir, status="running", algo=c.algo, env_id=c.env_id, seed=c.seed)
                self._open()
                self.trainer.run(self._after_tick)
                return self._finish()
            except Interrupted as stop:
                self._leave("interrupted", stop.exit_code)
                raise
            except BaseException as error:
                if isinstance(error, NonFiniteError):
                    failures.write(self.dir, error, self.config)
                self._leave("failed", error.exit_code if isinstance(error, UserError) else 1, str(error) or repr(error))
                raise
            finally:
                self.lock.release()

    def stop(self, reason: str) -> None:
        """End training after this tick."""
        self.trainer.stopped, self.stop_reason = True, reason

    def _open(self) -> None:
        agent, config = self.agent, self.config
        torch.set_num_threads(config.runtime.threads)
        torch.use_deterministic_algorithms(config.runtime.deterministic)
        torch.backends.cuda.matmul.allow_tf32 = config.runtime.matmul == "tf32"
        seed_globals(derive(config.seed, "learning"))  # whatever was drawn since the agent was made must not matter
        self.learner = Learner(agent.parts.algorithm, config.runtime.device, config.runtime.accelerate)
        agent.actor = Actor(agent.parts.algorithm.policy)  # after the learner has laid out the parameters
        buffer, dataset = prepare.buffer(agent)
        collector = None
        if config.total_steps:
            envs = training_envs(config, agent.env_source)
            parts = agent.parts
            collector = Collector(
                envs, agent.actor, config.seed, parts.random_steps, parts.keep_outputs,
                noise_correlation=parts.noise_correlation,
            )  # fmt: skip
            self.progress.say(f"envs: {config.env.num_envs} x {config.env_id} ({config.env.backend}); resume: {envs.capture}")
        self.trainer = Trainer(
            self.learner, buffer, collector, collect=agent.parts.collect, total_steps=config.total_steps,
            offline_updates=config.offline_updates, block=prepare.block(config),
        )  # fmt: skip
        checkpoint = self._resumed_from
        self.records = Records(self.dir, config.logging, None if checkpoint is None else checkpoint.parts["run"])
        self._opened = True
        if checkpoint is not None:
            resuming.check_dataset(self.dir, dataset)
            for name, part in sorted(self.parts().items(), key=lambda item: item[0] == "rng"):  # the generators last
                part.load_state_dict(checkpoint.parts[name])
            if collector is not None and not collector.envs.exact:
                buffer.cut()
            write_bytes(self.dir / "config.yaml", dump_yaml(config).encode())  # a longer run, say, is now the run's length
            self._saved = (self.trainer.clock, checkpoint.path)
        if self.learner.device.type != "cpu":
            buffer.reside(self.learner.device)
        self._clock = self._first_clock = self.trainer.clock
        write_run_info(self.dir, dataset=dataset, parameters=sum(p.numel() for p in agent.parts.algorithm.parameters()))
        self.progress.say(f"run {self.dir}")

    def parts(self) -> dict[str, Stateful]:
        """Everything that a checkpoint holds, besides the records."""
        parts: dict[str, Stateful] = {"rng": GlobalRng(), "learner": self.learner, "buffer": self.trainer.buffer}
        if self.trainer.collector is not None:
            parts["collector"] = self.trainer.collector
        return parts

    def _after_tick(self) -> None:
        before, self._clock = self._clock, self.trainer.clock

        def due(every: int) -> bool:
            return every > 0 and self._clock // every > before // every

        with self.trainer.timing.phase("log"):
            self.records.episodes(self.trainer.collector)
            self.callbacks.on_step(self)
            if due(self.config.logging.every):
                self.records.metrics(self.trainer, self._rate())
        improved = (due(self.config.evaluation.every) or self.trainer.done) and self._evaluate()
        asked = self.signals.checkpoint or self.signals.stop is not None
        if improved or due(self.config.checkpoint.every) or asked or self.trainer.done:
            self.signals.checkpoint = False
            self._save(best=improved)
        if self.signals.stop is not None and not self.trainer.done:
            raise Interrupted(self.signals.stop, self.dir, self._clock)
        if time.monotonic() - self._shown > SHOW_EVERY:
            self._shown = time.monotonic()
            self.progress.update(results.status(self.trainer, self.records, self._rate(), self._saved and self._saved[0]))

    def _evaluate(self) -> bool:
        """Evaluate and record; tells whether this is the best so far."""
        episodes = self.config.evaluation.num_episodes
        if not episodes:
            return False
        with self.trainer.timing.phase("evaluate"), preserved():
            if self.evaluation_envs is None:
                self.evaluation_envs = evaluation_envs(self.config, self.agent.env_source, episodes)
            result = self.agent.play(self.evaluation_envs, episodes, self._clock, self.config.evaluation.deterministic)
        improved = self.records.evaluated(self._clock, result)
        self.progress.say(f"step {self._clock:,}: evaluation {result}{' (best)' if improved else ''}")
        self.callbacks.on_evaluation(self, result)
        return improved

    def _save(self, best: bool = False) -> None:
        with self.trainer.timing.phase("checkpoint"):
            state = {name: part.state_dict() for name, part in self.parts().items()} | {"run": self.records.state_dict()}
            meta = {"algo": self.config.algo, "env_id": self.config.env_id, "env_steps": self.trainer.env_steps}
            path = self.store.save(self._clock, state, meta | {"updates": self.learner.updates}, best=best)
        self._saved = (self._clock, path)
        self.callbacks.on_checkpoint(self, path)

    def _finish(self) -> TrainResult:
        assert self._saved is not None and self._saved[0] == self._clock, "the last tick saves"
        self.callbacks.on_end(self)
        self._leave("finished", 0, self.stop_reason)
        return TrainResult(self.dir, self._saved[1], results.final_metrics(self.trainer, self.records), self.records.evaluation)

    def _leave(self, status: str, exit_code: int, reason: str = "") -> None:
        self.progress.close()
        if self._opened:
            self.records.logger.close()
            collected = None if self.trainer.collector is None else self.trainer.collector.envs
            for envs in (collected, self.evaluation_envs):
                if envs is not None and envs.envs is not self.agent.env_source:
                    envs.close()
        write_run_info(self.dir, status=status, exit_code=exit_code, reason=reason, step=self._clock)

    def _rate(self) -> float:
        """Clock units per second since this process began to train."""
        return (self._clock - self._first_clock) / max(1e-9, time.perf_counter() - self.trainer.timing.started)
