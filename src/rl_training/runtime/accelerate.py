"""How an update runs: as written (eager) or as one compiled graph. The only place that knows."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch.func import functional_call

from rl_training.algorithms.base import Algorithm, Batch

Update = Callable[..., Batch]
# fallback_random: torch's own generators, as in eager mode. cpp_wrapper: the calls between kernels are compiled too.
OPTIONS: dict[str, str | int | bool | Callable[..., Any]] = {"fallback_random": True, "cpp_wrapper": True}


def accelerate(algorithm: Algorithm, mode: str) -> Update:
    """The algorithm's update in the given mode; all modes take the same steps up to rounding."""
    return algorithm.update if mode == "eager" else _compiled(algorithm)


def _compiled(algorithm: Algorithm) -> Update:
    """One graph per combination of static flags.

    Inside the graph every trained parameter is a view of its optimizer's flat vector, so that forward, backward, clipping, the
    step and the target update fuse into one program. Random numbers come from torch's own generator, as in eager mode.
    """
    graphs: dict[tuple[tuple[str, Hashable], ...], Update] = {}

    def update(batch: Batch, **static: Hashable) -> Batch:
        key = tuple(sorted(static.items()))
        if key not in graphs:
            def step(batch: Batch) -> Batch:
                return functional_call(algorithm, algorithm.flat_views(), ("update", batch), static)

            graphs[key] = torch.compile(step, fullgraph=True, dynamic=False, options=OPTIONS)
        with torch.no_grad():
            return graphs[key](batch)

    return update
