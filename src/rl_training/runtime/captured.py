"""An update as a CUDA graph: its hundreds of small kernels are launched as one."""

from __future__ import annotations

from collections.abc import Hashable

import torch

from rl_training.data.batch import Batch, Draw, tree_map
from rl_training.runtime.batches import Update, drawn, layout, leaves


class Captured:
    """An update recorded once per combination of static flags (and kind of batch) and replayed from then on.

    The first call of each runs as it is, on a stream of its own: it is a real update, and warms up what may not be recorded. The
    second records, which computes nothing, and replays. Random numbers go on from torch's generator, as if each ran by itself.
    """

    def __init__(self, update: Update) -> None:
        self.update = update
        self.warm: set[Hashable] = set()
        self.graphs: dict[Hashable, _Recording] = {}

    def __call__(self, batch: Batch | Draw, **static: Hashable) -> Batch:
        key = (tuple(sorted(static.items())), id(batch) if callable(batch) else layout(leaves(batch)))
        if key not in self.warm:
            self.warm.add(key)
            return self._warm_up(batch, static)
        if key not in self.graphs:
            self.graphs[key] = _Recording(self.update, batch, static)
        return self.graphs[key].replay(batch)

    def _warm_up(self, batch: Batch | Draw, static: dict[str, Hashable]) -> Batch:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            out = self.update(drawn(batch), **static)
        torch.cuda.current_stream().wait_stream(side)
        return out


class _Recording:
    """One CUDA graph, the tensors it reads, and those it leaves its results in."""

    def __init__(self, update: Update, batch: Batch | Draw, static: dict[str, Hashable]) -> None:
        self.inputs = None if callable(batch) else {k: tree_map(torch.clone, v) for k, v in batch.items()}
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            out = update(batch() if callable(batch) else self.inputs, **static)
            self.names = [name for name, value in out.items() if value.ndim == 0]
            self.scalars = torch.stack([out[name].float() for name in self.names])
            self.others = {name: value for name, value in out.items() if value.ndim}

    def replay(self, batch: Batch | Draw) -> Batch:
        if self.inputs is not None:
            for target, source in zip(leaves(self.inputs), leaves(batch)):
                target.copy_(source, non_blocking=True)
        self.graph.replay()
        # The next replay overwrites what this one gave, and metrics are looked at much later.
        return dict(zip(self.names, self.scalars.clone().unbind())) | self.others
