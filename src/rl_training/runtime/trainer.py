"""The one loop: collect -> buffer -> learner -> buffer. Everything else looks on from hooks between ticks."""

from __future__ import annotations

from collections.abc import Callable

from rl_training.data.batch import BLOCK, Batch, Buffer
from rl_training.runtime.collector import Collector
from rl_training.runtime.learner import Learner
from rl_training.runtime.timing import Timing


class Trainer:
    """Learns from stored data alone for `offline_updates`, then alternates `collect` env steps and the updates they earn.

    `block` is how many updates from stored data alone make a tick. Between ticks every part is consistent: that is when hooks run
    and when a checkpoint can be taken.
    """

    def __init__(
        self,
        learner: Learner,
        buffer: Buffer,
        collector: Collector | None,
        *,
        collect: int,
        total_steps: int,
        offline_updates: int = 0,
        block: int = 1,
    ) -> None:
        self.learner, self.buffer, self.collector = learner, buffer, collector
        self.collect, self.total_steps, self.offline_updates = collect, total_steps, offline_updates
        self.block = block
        self.timing = Timing()
        self.stopped = False

    @property
    def env_steps(self) -> int:
        return 0 if self.collector is None else self.collector.steps

    @property
    def offline(self) -> bool:
        """Whether the run is still learning from stored data alone."""
        return self.learner.updates < self.offline_updates

    @property
    def clock(self) -> int:
        """What cadences count: updates while offline, plus env steps."""
        return min(self.learner.updates, self.offline_updates) + self.env_steps

    @property
    def end(self) -> int:
        return self.offline_updates + self.total_steps

    @property
    def done(self) -> bool:
        return self.stopped or (not self.offline and self.env_steps >= self.total_steps)

    def run(self, after_tick: Callable[[], None]) -> None:
        """Train to the end, or until somebody sets `stopped`."""
        while not self.done:
            self.tick()
            after_tick()

    def tick(self) -> None:
        """One unit of work: a block of updates from stored data, or some env steps and the updates they earn."""
        algorithm, before = self.learner.algorithm, self.env_steps
        if self.offline:
            updates = self.learner.updates
            # By whole blocks of the largest size: how long a block is follows from cadences, which must not matter.
            algorithm.anneal((updates - updates % BLOCK) / self.end)
            self._learn(min(self.block - updates % self.block, self.offline_updates - updates))
            return
        algorithm.anneal(self.clock / self.end)
        assert self.collector is not None, "env steps are wanted, but there is no collector"
        with self.timing.phase("collect"):
            chunk = self.collector.collect(self.collect)
            self.buffer.add(chunk)
        self._learn(self.env_steps - before)
        if algorithm.policy.normalizer is not None:
            # After learning from it: the rollout's log-probabilities and the updates then share one set of statistics.
            algorithm.observe(chunk)

    def _learn(self, new: int) -> None:
        batches = iter(self.buffer.batches(new, self._prepare))
        while True:
            with self.timing.phase("sample"):
                batch = next(batches, None)
            if batch is None:
                return
            with self.timing.phase("update"):
                out = self.learner.update(batch)
                self.buffer.feedback(batch, out)

    def _prepare(self, rollout: Batch) -> Batch:
        with self.timing.phase("prepare"):
            return self.learner.prepare(rollout)
