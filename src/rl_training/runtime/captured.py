"""Updates as a CUDA graph: their hundreds of small kernels are launched as one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch

from rl_training.data.batch import Batch, tree_map
from rl_training.runtime.batches import Draw, Static, Update, layout, leaves


class Captured:
    """Updates recorded once per sequence of static flags (and kind of batch) and replayed from then on.

    The first update of each kind runs as it is, on a stream of its own: it is a real one, and warms up what may not be recorded.
    Recording computes nothing. Random numbers go on from torch's generator, as if each update ran by itself.
    """

    def __init__(self, update: Update) -> None:
        self.update = update
        self.warm: set[Hashable] = set()
        self.graphs: dict[Hashable, _Recording] = {}

    def __call__(self, batch: Batch | Draw, statics: Sequence[Static]) -> list[Batch]:
        source = id(batch) if callable(batch) else layout(leaves(batch))
        kinds = [(tuple(sorted(static.items())), source) for static in statics]
        if not self.warm.issuperset(kinds):
            self.warm.update(kinds)
            return self._warm_up(batch, statics)
        key = tuple(kinds)
        if key not in self.graphs:
            self.graphs[key] = _Recording(self.update, batch, statics)
        return self.graphs[key].replay(batch)

    def _warm_up(self, batch: Batch | Draw, statics: Sequence[Static]) -> list[Batch]:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            out = [self.update(batch, **static) for static in statics]
        torch.cuda.current_stream().wait_stream(side)
        return out


class _Recording:
    """One CUDA graph, the tensors it reads, and those it leaves its results in."""

    def __init__(self, update: Update, batch: Batch | Draw, statics: Sequence[Static]) -> None:
        self.inputs = None if callable(batch) else {k: tree_map(torch.clone, v) for k, v in batch.items()}
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            outs = [update(batch if self.inputs is None else self.inputs, **static) for static in statics]
            self.names = [[name for name, value in out.items() if value.ndim == 0] for out in outs]
            self.scalars = torch.stack([out[name].float() for out, names in zip(outs, self.names) for name in names])
            self.others = [{name: value for name, value in out.items() if value.ndim} for out in outs]

    def replay(self, batch: Batch | Draw) -> list[Batch]:
        if self.inputs is not None:
            for target, source in zip(leaves(self.inputs), leaves(batch)):
                target.copy_(source, non_blocking=True)
        self.graph.replay()
        # The next replay overwrites what this one gave, and metrics are looked at much later.
        scalars = iter(self.scalars.clone().unbind())
        return [dict(zip(names, scalars)) | others for names, others in zip(self.names, self.others)]
