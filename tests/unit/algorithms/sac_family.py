"""What the tests of SAC and its relatives, and those of TD3, share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from rl_training.algorithms import find


def algorithm(name: str, **settings: Any) -> Any:
    """The learning rule of a small agent on Pendulum (three numbers seen, one action)."""
    torch.set_num_threads(1)
    return find(name)("Pendulum-v1", **({"hidden": (8, 8)} | settings)).parts.algorithm


def batch(rows: int = 16, seed: int = 0) -> dict[str, torch.Tensor]:
    """Random transitions; the last of them ends its episode."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    discount = torch.full((rows,), 0.9)
    discount[-1] = 0.0
    return {"obs": normal(rows, 3), "next_obs": normal(rows, 3), "action": normal(rows, 1).tanh(), "reward": normal(rows),
            "discount": discount, "weight": torch.ones(rows)}  # fmt: skip


def changed_parts(rule: Any, update: Callable[[], Any]) -> set[str]:
    """The parts of a rule (critic, policy, ...) whose parameters an update changes."""
    before = {name: p.detach().clone() for name, p in rule.named_parameters()}
    update()
    return {name.split(".")[0] for name, p in rule.named_parameters() if not torch.equal(p, before[name])}


def constant_outputs(critic: Any, values: list[Any]) -> None:
    """Let member i of an ensemble give values[i] (a number, or one for each output) whatever it sees."""
    last = critic.body[-1]
    last.weight.data.zero_()
    last.bias.data.copy_(torch.tensor(values, dtype=torch.float32).reshape(last.bias.shape))


@contextmanager
def fixed_log_prob(policy: Any, log_prob: float) -> Iterator[None]:
    """Let every sampled action have this log-density."""
    original = policy.sample
    policy.sample = lambda obs: (original(obs)[0], torch.full((len(obs),), log_prob))
    try:
        yield
    finally:
        del policy.sample
