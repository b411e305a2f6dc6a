"""Acting in NumPy gives what the network gives in torch, and what has no NumPy form is left to torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rl_training.algorithms import find
from rl_training.runtime.acting import Actor
from rl_training.runtime.numpy_forms import numpy_policy

CASES: list[tuple[str, dict[str, Any], bool]] = [
    ("sac", {}, True),
    ("sac", {"layer_norm": True}, True),
    ("sac", {"block": "residual"}, True),
    ("sac", {"normalize_obs": True}, True),
    ("sac", {"activation": "gelu"}, False),
    ("crossq", {}, True),
    ("dqn", {}, True),
    ("dqn", {"dueling": True}, True),
    ("dqn", {"noisy": True}, True),
    ("dqn", {"noisy": True, "activation": "gelu"}, False),
    ("c51", {"dueling": True, "noisy": True}, True),
    ("qr_dqn", {"noisy": True}, True),
    ("iqn", {}, True),
    ("iqn", {"dueling": True, "noisy": True}, True),
    ("rainbow", {"layer_norm": True}, True),
    ("ars", {"num_envs": 6}, True),
]


def data(obs_size: int, discrete: bool, generator: torch.Generator) -> dict[str, torch.Tensor]:
    rows = {key: torch.randn((32, obs_size), generator=generator) * 3 + 1 for key in ("obs", "next_obs")}
    action = torch.randint(2, (32,), generator=generator) if discrete else torch.rand((32, 1), generator=generator) * 2 - 1
    return rows | {"action": action, "reward": torch.ones(32), "discount": torch.ones(32), "weight": torch.ones(32)}


@pytest.mark.parametrize(("name", "settings", "in_numpy"), CASES)
def test_both_ways_of_acting_agree(name: str, settings: dict[str, Any], in_numpy: bool) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    discrete = name not in ("sac", "crossq")
    env_id, size = ("CartPole-v1", 4) if discrete else ("Pendulum-v1", 3)
    algorithm: Any = find(name)(env_id, hidden=(16, 16), learning_rate=0.1 if name == "ars" else 1e-2, **settings).parts.algorithm
    assert (numpy_policy(algorithm.policy) is not None) == in_numpy
    actor = Actor(algorithm.policy)
    generator = torch.Generator().manual_seed(1)
    obs = torch.randn((6, size), generator=generator) * 3
    before = actor.outputs(obs.numpy())
    # Parameters and running statistics change in place; the actor must see it.
    rows = data(size, discrete, generator) | {"episode_return": torch.arange(6.0)}
    if algorithm.policy.normalizer is not None:
        algorithm.policy.normalizer.observe(rows["obs"])
    for _ in range(5):
        algorithm.update(rows, actor=True)
    found, explored = actor.outputs(obs.numpy()), actor.outputs(obs.numpy(), np.random.default_rng(3))
    assert np.abs(found - before).max() > 1e-4
    assert np.array_equal(found, actor.outputs(obs.numpy())), "acting greedily is a function of the observation"
    assert np.array_equal(found, explored) != bool(settings.get("noisy") or name in ("rainbow", "ars"))
    actor._step = None  # in torch
    for expected, rng in ((found, None), (explored, np.random.default_rng(3))):
        np.testing.assert_allclose(actor.outputs(obs.numpy(), rng), expected, rtol=0, atol=2e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", ["sac", "td3", "ppo"])
def test_a_policy_that_learns_on_a_gpu_acts_on_the_cpu_with_the_same_weights(name: str) -> None:
    algorithm: Any = find(name)("Pendulum-v1", hidden=(16, 16)).parts.algorithm.to("cuda")
    algorithm.bind()
    actor, obs = Actor(algorithm.policy), torch.randn(6, 3)
    assert actor._step is not None and next(actor.policy.parameters()).device.type == "cpu"
    before = actor.outputs(obs.numpy())
    with torch.no_grad():
        for parameter in algorithm.policy.parameters():
            parameter.add_(0.1)
    assert np.array_equal(actor.outputs(obs.numpy()), before), "until it is refreshed"
    actor.refresh()
    expected = algorithm.policy(obs.cuda()).detach().cpu().numpy()
    np.testing.assert_allclose(actor.outputs(obs.numpy()), expected, rtol=0, atol=2e-5)
    for mine, theirs in zip(actor.policy.parameters(), algorithm.policy.parameters()):
        assert torch.equal(mine, theirs.cpu()), "what choosing reads is refreshed too"
