"""An update as one compiled program per layout of its batches and per combination of static flags."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, cast

import torch
import torch._functorch.config
from torch import Tensor
from torch._inductor.compile_fx import compile_fx
from torch.func import functional_call

from rl_training.algorithms.base import Algorithm
from rl_training.data.batch import Batch
from rl_training.runtime.batches import Draw, layout, leaves
from rl_training.runtime.products import decompositions

OPTIONS: dict[str, Any] = {"fallback_random": True}  # torch's own generators


class Compiled:
    """Traces an update once and from then on calls what the compiler made of it directly.

    Going through `torch.compile`'s entry each time would check again what cannot change here (the algorithm keeps its tensors,
    the layout of a batch is part of the key): 0.2 ms, more than a whole update of a small network takes.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        self.programs: dict[Hashable, _Program] = {}
        self.draws: dict[int, Draw] = {}

    def __call__(self, batch: Batch | Draw, **static: Hashable) -> Batch:
        if callable(batch):
            batch = self._draw(batch)
        tensors = leaves(batch)
        key = (tuple(static.items()), layout(tensors))
        with torch.no_grad():
            if key in self.programs:
                return self.programs[key](tensors)
            program = self.programs[key] = _Program(self.algorithm, static)
            return program.trace(batch)

    def _draw(self, draw: Draw) -> Batch:
        """A batch that the compiler's version of `draw` makes: a few kernels where it is written as a dozen."""
        if id(draw) not in self.draws:
            self.draws[id(draw)] = torch.compile(draw, fullgraph=True, dynamic=False, options=OPTIONS)
        with torch.no_grad():
            return self.draws[id(draw)]()


class _Program:
    """One compiled update: its function, what it is called with, and where in its results the update's outputs are.

    Inside it every trained parameter is a view of its optimizer's flat vector, so that forward, backward, clipping, the step and
    the target update fuse. Random numbers come from torch's own generator, as in eager mode.
    """

    def __init__(self, algorithm: Algorithm, static: dict[str, Hashable]) -> None:
        def step(batch: Batch) -> Batch:
            return functional_call(algorithm, algorithm.flat_views(), ("update", batch), static)

        # A code object of its own: the compiler counts how often one is compiled, and gives up after eight.
        step.__code__ = step.__code__.replace()
        self.traced = torch.compile(step, fullgraph=True, dynamic=False, backend=self._compile)
        on_cpu = next(algorithm.parameters()).device.type == "cpu"
        # cpp_wrapper: the calls between kernels are compiled too.
        self.options = OPTIONS | {"cpp_wrapper": on_cpu}
        self.decompositions = decompositions() if on_cpu else None
        self.results: tuple[Any, ...] = ()

    def _compile(self, graph: torch.fx.GraphModule, examples: list[Tensor]) -> Callable[..., Any]:
        # The cache of this one stage would not see that the forms of products have changed; the cache of kernels does.
        with torch._functorch.config.patch(enable_autograd_cache=False):
            compiled = compile_fx(graph, examples, config_patches=self.options, decompositions=self.decompositions)
        self.function = cast(Callable[..., Any], compiled)

        def first_call(*arguments: Any) -> tuple[Any, ...]:
            self.arguments, self.results = list(arguments), tuple(self.function(*arguments))
            return self.results

        return first_call

    def trace(self, batch: Batch) -> Batch:
        """Compile, make the first update, and note which arguments and results are the batch's tensors and the outputs."""
        out: Batch = self.traced(batch)
        tensors = {id(tensor): place for place, tensor in enumerate(leaves(batch))}
        self.slots = [(i, tensors[id(given)]) for i, given in enumerate(self.arguments) if id(given) in tensors]
        places = {id(result): place for place, result in enumerate(self.results)}
        if foreign := [name for name, value in out.items() if id(value) not in places]:
            raise TypeError(f"update() returned {', '.join(foreign)}, which it did not compute. Return new tensors only.")
        self.outputs = [(name, places[id(value)]) for name, value in out.items()]
        self.results = ()
        for i, _ in self.slots:
            self.arguments[i] = None  # the program keeps what lasts, not its first batch
        return out

    def __call__(self, given: list[Tensor]) -> Batch:
        for i, place in self.slots:
            self.arguments[i] = given[place]
        results = self.function(*self.arguments)
        return {name: results[place] for name, place in self.outputs}
