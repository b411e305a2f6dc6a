"""What changes parameters, kept in flat vectors: an optimizer that minimizes a named loss, and targets that follow slowly."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rl_training.algorithms.flat import FlatParameters

if TYPE_CHECKING:
    from rl_training.algorithms.base import Algorithm, Batch


class Optim(FlatParameters):
    """Adam over one flat vector, so that clip, step and Polyak are one operation each.

    A child module, so moments, step count and learning rate travel in `algorithm.state_dict()`.
    """

    exp_avg: Tensor
    exp_avg_sq: Tensor
    steps: Tensor
    lr: Tensor

    def __init__(
        self,
        owner: Algorithm,
        parts: Sequence[str],
        lr: float,
        *,
        max_norm: float | None = None,
        eps: float = 1e-8,
        betas: tuple[float, float] = (0.9, 0.999),
    ) -> None:
        super().__init__(owner, parts)
        self.max_norm, self.eps, self.betas = max_norm, eps, betas
        self.reduce: Callable[[Tensor], Tensor] = lambda grad: grad  # the place for a gradient all-reduce
        self.register_moments()
        self.register_buffer("lr", torch.tensor(float(lr)))

    def register_moments(self) -> None:
        """What the rule remembers of earlier gradients."""
        self.register_buffer("exp_avg", torch.zeros_like(self.flat))
        self.register_buffer("exp_avg_sq", torch.zeros_like(self.flat))
        self.register_buffer("steps", torch.zeros(()))

    def minimize(self, loss: str, *args: Any) -> Batch:
        """Take one step on the owner's loss method and return its second result (metrics)."""
        if torch.compiler.is_compiling():
            grad, out = torch.func.grad(lambda flat: self.call(flat, loss, *args), has_aux=True)(self.flat)
        else:
            value, out = getattr(self._owner[0], loss)(*args)
            grads = torch.autograd.grad(value, self.parameters_in_order)
            grad = torch.cat([g.reshape(-1) for g in grads])
        self.step(grad)
        return out

    @torch.no_grad()
    def step(self, grad: Tensor) -> None:
        """Clip by global norm, then move."""
        grad = self.reduce(grad)
        if self.max_norm is not None:
            grad = grad * (self.max_norm / (grad.norm() + 1e-6)).clamp(max=1.0)
        self.move(grad)

    def move(self, grad: Tensor) -> None:
        """One step of Adam."""
        self.steps.add_(1.0)
        beta1, beta2 = self.betas
        if not torch.compiler.is_compiling():
            torch._fused_adam_(
                [self.flat], [grad], [self.exp_avg], [self.exp_avg_sq], [], [self.steps],
                lr=self.lr, beta1=beta1, beta2=beta2, weight_decay=0.0, eps=self.eps, amsgrad=False, maximize=False,
            )  # fmt: skip
            return
        # The fused kernel cannot be traced; written out, the compiler fuses it with what is around it.
        self.exp_avg.lerp_(grad, 1 - beta1)
        self.exp_avg_sq.lerp_(grad.square(), 1 - beta2)
        scale, correction = _settled(self.lr / (1 - beta1**self.steps)), _settled((1 - beta2**self.steps).rsqrt())
        self.flat.sub_(scale * self.exp_avg / (self.exp_avg_sq.sqrt() * correction + self.eps))


def _settled(scalar: Tensor) -> Tensor:
    """A scalar that the compiler works out once: left to itself it would repeat the powers in it for every few parameters."""
    return scalar.as_strided((), ())


class Target(nn.Module):
    """A lagged copy of a part of the algorithm that follows it by Polyak averaging (tau = 1 copies)."""

    net: Any

    def __init__(self, owner: Algorithm, part: str, tau: float) -> None:
        super().__init__()
        self._owner, self.part, self.tau = (owner,), part, tau
        self.net = copy.deepcopy(owner.get_submodule(part)).requires_grad_(False)
        self.register_buffer("flat", torch.empty(0), persistent=False)
        self.bind()

    flat: Tensor

    def bind(self) -> None:
        parameters = list(self.net.parameters())
        self.names = [n for n, _ in self.net.named_parameters()]
        self.shapes, self.sizes = [p.shape for p in parameters], [p.numel() for p in parameters]
        self.flat = torch.cat([p.detach().reshape(-1) for p in parameters])
        for p, view in zip(parameters, self.views().values()):
            p.data = view
        optims = [m for m in self._owner[0].modules() if isinstance(m, FlatParameters)]
        wanted = [f"{self.part}.{n}" for n in self.names]
        for optim in optims:
            if wanted[0] in optim.names:
                first = optim.names.index(wanted[0])
                if optim.names[first : first + len(wanted)] == wanted:
                    start = sum(optim.sizes[:first])
                    self._source = (optim, start, start + self.flat.numel())
                    return
        raise ValueError(f"no single optimizer holds '{self.part}': make its Optim before its Target")

    def views(self) -> dict[str, Tensor]:
        return {n: part.view(shape) for n, part, shape in zip(self.names, self.flat.split(self.sizes), self.shapes)}

    def forward(self, *args: Any) -> Any:
        return self.net(*args)

    @torch.no_grad()
    def update(self) -> None:
        """Move towards the source by tau; buffers (normalization statistics) are copied."""
        optim, start, end = self._source
        self.flat.lerp_(optim.flat[start:end], self.tau)
        for mine, theirs in zip(self.net.buffers(), self._owner[0].get_submodule(self.part).buffers()):
            mine.copy_(theirs)
