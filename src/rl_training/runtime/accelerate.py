"""How an update runs: as written (eager), as one compiled graph, or captured in a CUDA graph. The only place that knows."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from rl_training.algorithms.base import Algorithm
from rl_training.data.batch import Batch, Draw, tree_map

Update = Callable[..., Batch]
Flags = tuple[tuple[str, Hashable], ...]


def accelerate(algorithm: Algorithm, mode: str) -> Update:
    """The algorithm's update in the given mode; all modes take the same steps up to rounding (a CUDA graph: exactly)."""
    update = _compiled(algorithm) if mode.startswith("compile") else algorithm.update
    return _Captured(update) if mode.endswith("graph") else lambda batch, **static: update(drawn(batch), **static)


def drawn(batch: Batch | Draw) -> Batch:
    """The batch itself, or a new one where the buffer samples inside the update."""
    return batch() if callable(batch) else batch


def _compiled(algorithm: Algorithm) -> Update:
    """One graph per combination of static flags.

    Inside the graph every trained parameter is a view of its optimizer's flat vector, so that forward, backward, clipping, the
    step and the target update fuse into one program. Random numbers come from torch's own generator, as in eager mode.
    """
    graphs: dict[Flags, Update] = {}
    on_cpu = next(algorithm.parameters()).device.type == "cpu"
    # fallback_random: torch's own generators, as in eager mode. cpp_wrapper: the calls between kernels are compiled too.
    options: dict[str, Any] = {"fallback_random": True, "cpp_wrapper": on_cpu}

    def update(batch: Batch, **static: Hashable) -> Batch:
        key = tuple(sorted(static.items()))
        if key not in graphs:
            def step(batch: Batch) -> Batch:
                return functional_call(algorithm, algorithm.flat_views(), ("update", batch), static)

            graphs[key] = torch.compile(_own_code(step), fullgraph=True, dynamic=False, options=options)
        with torch.no_grad():
            return graphs[key](batch)

    return update


def _own_code(function: FunctionType) -> FunctionType:
    """A copy with a code object of its own. torch.compile keeps its results there and refuses the ninth, and one process may
    train many agents."""
    code, closure = function.__code__.replace(), function.__closure__
    return FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)


class _Captured:
    """An update recorded once per combination of static flags (and kind of batch) and replayed from then on.

    The first call of each runs as it is, on a stream of its own: it is a real update, and warms up what may not be recorded. The
    second records, which computes nothing, and replays. Random numbers go on from torch's generator, as if each ran by itself.
    """

    def __init__(self, update: Update) -> None:
        self.update = update
        self.warm: set[Hashable] = set()
        self.graphs: dict[Hashable, _Recording] = {}

    def __call__(self, batch: Batch | Draw, **static: Hashable) -> Batch:
        key = (tuple(sorted(static.items())), id(batch) if callable(batch) else _layout(batch))
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
            for key, target in self.inputs.items():
                _copy(target, batch[key])  # type: ignore[index]
        self.graph.replay()
        # The next replay overwrites what this one gave, and metrics are looked at much later.
        return dict(zip(self.names, self.scalars.clone().unbind())) | self.others


def _copy(target: Any, source: Any) -> None:
    if isinstance(target, dict):
        for key, part in target.items():
            _copy(part, source[key])
    else:
        target.copy_(source, non_blocking=True)


def _layout(batch: Batch) -> Hashable:
    """What a recording depends on: the shapes of a batch that comes from outside."""
    def shape(value: Any) -> Hashable:
        if isinstance(value, Tensor):
            return tuple(value.shape)
        return tuple((key, shape(part)) for key, part in value.items())

    return shape(batch)
