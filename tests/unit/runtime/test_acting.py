"""Acting in NumPy gives what the network gives in torch, and what has no NumPy form is left to torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rl_training.algorithms import find
from rl_training.runtime.acting import Actor, numpy_steps

CASES: list[tuple[str, dict[str, Any], bool]] = [
    ("sac", {}, True),
    ("sac", {"layer_norm": True}, True),
    ("crossq", {}, True),
    ("sac", {"block": "residual"}, False),
]


@pytest.mark.parametrize(("name", "settings", "in_numpy"), CASES)
def test_both_ways_of_acting_agree(name: str, settings: dict[str, Any], in_numpy: bool) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    algorithm: Any = find(name)("Pendulum-v1", hidden=(16, 16), **settings).parts.algorithm
    assert (numpy_steps(algorithm.policy) is not None) == in_numpy
    actor = Actor(algorithm.policy)
    generator = torch.Generator().manual_seed(1)
    obs = torch.randn((6, 3), generator=generator) * 3
    before = actor.outputs(obs.numpy())
    # Parameters and running statistics change in place; the actor must see it.
    data = {key: torch.randn((32, 3), generator=generator) * 3 + 1 for key in ("obs", "next_obs")}
    data |= {"action": torch.randn((32, 1), generator=generator).tanh(), "reward": torch.ones(32),
             "discount": torch.ones(32), "weight": torch.ones(32)}  # fmt: skip
    for _ in range(5):
        algorithm.update(data, actor=True)
    found = actor.outputs(obs.numpy())
    assert np.abs(found - before).max() > 1e-4
    with torch.no_grad():
        np.testing.assert_allclose(found, algorithm.policy(obs).numpy(), rtol=1e-4, atol=1e-5)
