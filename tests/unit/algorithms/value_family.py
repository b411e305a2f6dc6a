"""Small agents of the DQN family and batches to try them on."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rl_training.algorithms import find


def algorithm(name: str, **settings: Any) -> Any:
    """The learning rule of a small agent on CartPole."""
    return find(name)("CartPole-v1", **{"hidden": (16, 16), "learning_rate": 1e-3} | settings).parts.algorithm


def batch(rows: int = 8, seed: int = 0, **values: Any) -> dict[str, Tensor]:
    """Random transitions; keywords replace columns, numbers fill them."""
    generator = torch.Generator().manual_seed(seed)
    made = {
        "obs": torch.randn(rows, 4, generator=generator), "next_obs": torch.randn(rows, 4, generator=generator),
        "action": torch.randint(2, (rows,), generator=generator), "reward": torch.randn(rows, generator=generator),
        "discount": torch.full((rows,), 0.9), "weight": torch.ones(rows),
    }  # fmt: skip
    return made | {k: v if isinstance(v, Tensor) else torch.full_like(made[k], v) for k, v in values.items()}


class Fixed(torch.nn.Module):
    """A network that gives the same outputs for every row."""

    def __init__(self, outputs: Any) -> None:
        super().__init__()
        self.outputs = torch.nn.Parameter(torch.as_tensor(outputs, dtype=torch.float32))

    def forward(self, obs: Tensor, *tau: Tensor) -> Tensor:
        return self.outputs.expand(len(obs), *self.outputs.shape)
