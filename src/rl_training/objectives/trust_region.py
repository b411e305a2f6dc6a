"""A step as far as a divergence allows (Schulman et al. 2015, "Trust Region Policy Optimization", arXiv:1502.05477).

Nothing here branches on a value: what is not wanted is masked, so that it runs as one compiled graph and waits for no device.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def conjugate_gradient(product: Callable[[Tensor], Tensor], b: Tensor, steps: int, tolerance: float = 1e-10) -> Tensor:
    """x with product(x) = b, for a symmetric positive definite product, after at most `steps` iterations.

    Iterations after the squared residual has fallen below `tolerance`, or along a direction without curvature, change nothing.
    """
    x, residual, direction, error = torch.zeros_like(b), b, b, b.dot(b)
    going = torch.ones_like(error, dtype=torch.bool)
    for _ in range(steps):
        image = product(direction)
        curvature = direction.dot(image)
        going = going & (curvature > 0)
        length = torch.where(going, error / curvature, 0.0)
        x = x + length * direction
        residual = residual - length * image
        old_error, error = error, residual.dot(residual)
        direction = torch.where(going, residual + error / old_error * direction, direction)
        going = going & (error >= tolerance)
    return x


def natural_step(gradient: Tensor, product: Callable[[Tensor], Tensor], bound: float, steps: int) -> Tensor:
    """The step along F^-1 gradient whose divergence is `bound` to second order: x^T F x / 2; none where F has no curvature.

    `product` multiplies by F, the Hessian of the divergence (with its damping).
    """
    x = conjugate_gradient(product, gradient, steps)
    curvature = x.dot(product(x))
    return torch.where(curvature > 0, (2 * bound / curvature).sqrt(), 0.0) * x


def line_search(
    start: Tensor, step: Tensor, evaluate: Callable[[Tensor], tuple[Tensor, Tensor]], bound: float, shrink: float, tries: int
) -> tuple[Tensor, dict[str, Tensor]]:
    """The first of start + step, start + shrink step, start + shrink^2 step, ... that is better and within the bound.

    `evaluate` gives the objective (to rise) and the divergence from `start`. Without such a point it is `start`, bit for bit.
    """
    before, _ = evaluate(start)
    point, accepted = start, torch.zeros_like(before, dtype=torch.bool)
    improvement = divergence = torch.zeros_like(before)
    for power in range(tries):
        candidate = start + shrink**power * step
        objective, distance = evaluate(candidate)
        chosen = ~accepted & (objective > before) & (distance <= bound)
        point = torch.where(chosen, candidate, point)
        improvement = torch.where(chosen, objective - before, improvement)
        divergence = torch.where(chosen, distance, divergence)
        accepted = accepted | chosen
    return point, {"kl": divergence, "improvement": improvement, "accepted": accepted.float()}
