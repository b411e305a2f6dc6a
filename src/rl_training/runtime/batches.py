"""What compiled and captured updates need to know of a batch: its tensors, and what a program made for them depends on."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

from torch import Tensor

from rl_training.data.batch import Batch

Draw: TypeAlias = Callable[[], Batch]
Update: TypeAlias = Callable[..., Batch]
"""One update on a batch, or on one that is drawn first: (batch or draw, **static flags) -> results."""

Static: TypeAlias = dict[str, Hashable]


def drawn(batch: Batch | Draw) -> Batch:
    """The batch itself, or a new one where the buffer samples inside the update."""
    return batch() if callable(batch) else batch


def leaves(batch: Any) -> list[Tensor]:
    """The tensors of a batch, observations of several parts included."""
    if isinstance(batch, Tensor):
        return [batch]
    return [tensor for part in batch.values() for tensor in leaves(part)]


def layout(tensors: list[Tensor]) -> Hashable:
    """Shapes and strides: batches whose tensors are laid out alike can go through the same program."""
    return tuple([(tensor.shape, tensor.stride()) for tensor in tensors])
