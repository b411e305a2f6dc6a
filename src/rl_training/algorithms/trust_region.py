"""What moves parameters as far as a divergence allows, without a learning rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rl_training.algorithms.flat import FlatParameters
from rl_training.objectives.trust_region import line_search, natural_step

if TYPE_CHECKING:
    from rl_training.algorithms.base import Algorithm, Batch


class TrustRegion(FlatParameters):
    """Natural-gradient steps on a named objective, kept within a bound by a line search. It has no state but the parameters."""

    def __init__(
        self,
        owner: Algorithm,
        parts: Sequence[str],
        bound: float,
        *,
        cg_steps: int,
        damping: float,
        backtrack: float,
        backtrack_steps: int,
    ) -> None:
        super().__init__(owner, parts)
        self.bound, self.cg_steps, self.damping = bound, cg_steps, damping
        self.backtrack, self.backtrack_steps = backtrack, backtrack_steps

    @torch.no_grad()
    def maximize(self, objective: str, *args: Any) -> Batch:
        """One step on a method of the owner that gives the objective and the divergence from the parameters as they are."""

        def evaluate(flat: Tensor) -> tuple[Tensor, Tensor]:
            value, divergence = self.call(flat, objective, *args)
            return value, divergence

        gradient = torch.func.grad(lambda flat: evaluate(flat)[0])(self.flat)
        # The gradient of the divergence is differentiated once more for each product with its Hessian.
        slope: Callable[[Tensor], Tensor] = torch.func.grad(lambda flat: evaluate(flat)[1])
        hessian = torch.func.vjp(slope, self.flat)[1]
        step = natural_step(gradient, lambda v: hessian(v)[0] + self.damping * v, self.bound, self.cg_steps)
        point, out = line_search(self.flat, step, evaluate, self.bound, self.backtrack, self.backtrack_steps)
        self.flat.copy_(point)
        return out
