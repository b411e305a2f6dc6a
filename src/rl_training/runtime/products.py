"""How compiled programs on a CPU write matrix products: thin ones are spelled out, and biases are left to what comes next.

A library call for a product with a side of 1 or 2 (a value head, two actions) costs many times its arithmetic. As multiplications
and sums it fuses with the activations around it, and so does the addition of a bias, which a library makes a copy of first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._inductor.decomposition import select_decomp_table

aten = torch.ops.aten
THIN = 2  # sides up to which a product is written out
NARROW = 32  # results narrower than this are computed lying on their side: MKL is up to five times as fast at those


def decompositions() -> dict[Any, Callable[..., Any]]:
    """The compiler's own table, with other forms for matrix products."""
    table: dict[Any, Callable[..., Any]] = dict(select_decomp_table())
    return table | {
        aten.mm.default: _plain,
        aten.bmm.default: _spelled_out,
        aten.addmm.default: _biased,
        aten.baddbmm.default: _biased,
    }


def _plain(a: Tensor, b: Tensor) -> Tensor:
    """(M, K) times (K, N)."""
    rows, columns = len(a), b.shape[-1]
    if min(rows, a.shape[-1]) > THIN and THIN < columns < min(rows, NARROW):
        return (b.T @ a.T).T
    return _spelled_out(a, b)


def _spelled_out(a: Tensor, b: Tensor) -> Tensor:
    """(..., M, K) times (..., K, N)."""
    if min(*a.shape[-2:], b.shape[-1]) > THIN:
        return NotImplemented
    return (a.unsqueeze(-1) * b.unsqueeze(-3)).sum(-2)


def _biased(bias: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    if beta != 1 or alpha != 1:
        return NotImplemented
    return a @ b + bias
