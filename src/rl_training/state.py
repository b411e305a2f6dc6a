"""What "stateful" means everywhere: a part answers `state_dict()` with a tree and takes it back.

A tree is made of dicts (string keys), lists, numbers, strings, bools, None, NumPy arrays, torch tensors and `ChunkedArray`.
Nothing else: a tree can be written as JSON plus flat tensors, and reading it back runs no code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

Tree: TypeAlias = Any


@runtime_checkable
class Stateful(Protocol):
    """Anything whose state travels in a checkpoint."""

    def state_dict(self) -> dict[str, Tree]: ...

    def load_state_dict(self, state: dict[str, Tree]) -> None: ...


@dataclass
class ChunkedArray:
    """A large, mostly unchanged array as a list of chunks along axis 0.

    `versions[i]` changes whenever chunk i's content may have changed since an earlier `state_dict()` of the same run, so a store
    writes only chunks that it has not seen: the cost of a checkpoint is what is new, not the size of the buffer.
    """

    name: str
    chunks: list[np.ndarray]
    versions: list[int]

    def fill(self, target: np.ndarray) -> None:
        """Write the chunks to the start of `target`."""
        start = 0
        for chunk in self.chunks:
            target[start : start + len(chunk)] = chunk
            start += len(chunk)
