"""Parameters kept in one flat vector, so that what is done to all of them is one operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

if TYPE_CHECKING:
    from rl_training.algorithms.base import Algorithm


class FlatParameters(nn.Module):
    """The named parts of an algorithm as one flat vector, which their parameters are views of."""

    flat: Tensor

    def __init__(self, owner: Algorithm, parts: Sequence[str]) -> None:
        super().__init__()
        self._owner = (owner,)  # in a tuple: the owner is not a child
        parameters = dict(owner.named_parameters())
        self.names = [n for n in parameters if any(n == part or n.startswith(part + ".") for part in parts)]
        if not self.names:
            raise ValueError(f"no parameters under {list(parts)}; the algorithm has {sorted(parameters)}")
        self.register_buffer("flat", torch.empty(0), persistent=False)
        self.bind()

    def bind(self) -> None:
        owned = dict(self._owner[0].named_parameters())
        self.parameters_in_order = [owned[n] for n in self.names]
        self.shapes = [p.shape for p in self.parameters_in_order]
        self.sizes = [p.numel() for p in self.parameters_in_order]
        self.flat = torch.cat([p.detach().reshape(-1) for p in self.parameters_in_order])
        for p, view in zip(self.parameters_in_order, self.views(self.flat).values()):
            p.data = view

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        return {n: part.view(shape) for n, part, shape in zip(self.names, flat.split(self.sizes), self.shapes)}

    def call(self, flat: Tensor, method: str, *args: Any) -> Any:
        """A method of the owner as it would be with the parameters of `flat`."""
        return functional_call(self._owner[0], self.views(flat), (method, *args))
