"""Runs updates: counts them, moves batches to the device, applies schedules and sums metrics."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rl_training.algorithms.base import Algorithm
from rl_training.data.batch import Batch, Draws, tree_map
from rl_training.runtime.accelerate import accelerate
from rl_training.runtime.allocation import keep_freed_memory
from rl_training.runtime.guard import check_metrics
from rl_training.state import Tree

DRAIN_EVERY = 100  # updates between looks at the metrics: each look waits for the device


class Learner:
    """Owns the algorithm's update count and its metrics since they were last read."""

    def __init__(self, algorithm: Algorithm, device: str = "cpu", mode: str = "eager") -> None:
        self.algorithm, self.device = algorithm.to(device), torch.device(device)
        algorithm.bind()
        if self.device.type == "cpu":
            keep_freed_memory()
        self.mode = mode
        self._steps = accelerate(algorithm, mode)
        self.updates = 0
        self._pending: list[Batch] = []
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}

    def prepare(self, rollout: Batch) -> Batch:
        """What the algorithm adds to a fresh rollout."""
        prepared: Batch = self.algorithm.prepare(self._on_device(rollout))
        return prepared

    def _on_device(self, batch: Any) -> Any:
        if self.device.type == "cpu":
            return batch
        return {k: tree_map(lambda t: t.to(self.device, non_blocking=True), v) for k, v in batch.items()}

    def update(self, batch: Batch | Draws) -> Batch:
        """One learning step on a batch, or several on batches that are drawn inside the steps; what the last one gave."""
        count = batch.count if isinstance(batch, Draws) else 1
        statics = [self.algorithm.schedule(self.updates + i) for i in range(count)]
        out = self._steps(batch.draw if isinstance(batch, Draws) else self._on_device(batch), statics)
        self.updates += count
        self._pending += out
        if len(self._pending) >= DRAIN_EVERY:
            self.drain()
        return out[-1]

    def drain(self) -> None:
        """Fold pending metrics into sums; raises at the first update whose metrics are not finite."""
        first = self.updates - len(self._pending)
        scalars = [{k: v for k, v in out.items() if v.ndim == 0} for out in self._pending]
        self._pending = []
        series: dict[str, tuple[list[int], np.ndarray[Any, Any]]] = {}
        for name in dict.fromkeys(name for out in scalars for name in out):
            places = [first + i for i, out in enumerate(scalars) if name in out]
            values = torch.stack([out[name] for out in scalars if name in out]).double().cpu().numpy()
            total = self._sums.get(name, 0.0)
            for value in values.tolist():  # one by one: the sum must not depend on when it was looked at
                total += value
            self._sums[name] = total
            self._counts[name] = self._counts.get(name, 0) + len(values)
            series[name] = (places, values)
        check_metrics(series)

    def metrics(self) -> dict[str, float]:
        """Means since the last call."""
        self.drain()
        means = {name: total / self._counts[name] for name, total in self._sums.items()}
        self._sums, self._counts = {}, {}
        return means

    def state_dict(self) -> dict[str, Tree]:
        self.drain()
        return {
            "algorithm": dict(self.algorithm.state_dict()),
            "updates": self.updates,
            "sums": self._sums,
            "counts": self._counts,
        }

    def load_state_dict(self, state: dict[str, Tree]) -> None:
        self.algorithm.load_state_dict(state["algorithm"])
        self.updates = state["updates"]
        self._sums, self._counts = dict(state["sums"]), dict(state["counts"])
        self._pending = []
