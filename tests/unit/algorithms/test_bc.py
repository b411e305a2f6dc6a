"""BC: its three losses by hand, what they teach, and which settings go with which kind of action."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from sac_family import algorithm, batch, changed_parts

from rl_training import BC
from rl_training.errors import ConfigError
from rl_training.models.policies import CategoricalPolicy, DeterministicPolicy


class Shaped(gym.Env[Any, Any]):
    """Only its spaces are used."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)

    def __init__(self, action: gym.Space[Any]) -> None:
        self.action_space = action


def rule(action: gym.Space[Any], **settings: Any) -> Any:
    torch.set_num_threads(1)
    return BC(lambda: Shaped(action), hidden=(8, 8), normalize_obs=False, **settings).parts.algorithm


def give(bc: Any, outputs: list[float]) -> None:
    """Let the network give these outputs, whatever it sees."""
    layers = [layer for layer in bc.policy.net.modules() if isinstance(layer, torch.nn.Linear)]
    layers[-1].weight.data.zero_()
    layers[-1].bias.data.copy_(torch.tensor(outputs))


def test_squared_error_is_a_mean_over_rows_and_dimensions() -> None:
    bc = rule(gym.spaces.Box(-1.0, 1.0, (2,), np.float32))
    assert isinstance(bc.policy, DeterministicPolicy)
    give(bc, [math.atanh(0.5), 0.0])
    data = {"obs": torch.zeros(1, 3), "action": torch.tensor([[0.0, 1.0]])}
    assert bc.loss(data)[0].item() == pytest.approx(0.625, abs=1e-6)
    two = {"obs": torch.zeros(2, 3), "action": torch.tensor([[0.0, 1.0], [0.5, 0.0]])}
    assert bc.loss(two)[0].item() == pytest.approx(0.3125, abs=1e-6)


def test_likelihood_is_that_of_a_gaussian_around_the_tanh() -> None:
    bc = rule(gym.spaces.Box(-1.0, 1.0, (2,), np.float32), loss="likelihood", log_std_init=math.log(0.5))
    give(bc, [math.atanh(0.5), 0.0])
    data = {"obs": torch.zeros(1, 3), "action": torch.tensor([[0.0, 1.0]])}
    by_hand = sum(0.5 * (d / 0.5) ** 2 + math.log(0.5) + 0.5 * math.log(2 * math.pi) for d in (0.5, 1.0))
    assert bc.loss(data)[0].item() == pytest.approx(by_hand, abs=1e-5)


def test_discrete_actions_have_cross_entropy() -> None:
    bc = rule(gym.spaces.Discrete(3))
    assert isinstance(bc.policy, CategoricalPolicy)
    give(bc, [0.0, math.log(2.0), 0.0])
    data = {"obs": torch.zeros(2, 3), "action": torch.tensor([1, 0])}
    assert bc.loss(data)[0].item() == pytest.approx((math.log(2.0) + math.log(4.0)) / 2, abs=1e-6)


def test_choices_of_a_multidiscrete_action_add_up() -> None:
    bc = rule(gym.spaces.MultiDiscrete([2, 2]))
    give(bc, [0.0, math.log(3.0), 0.0, 0.0])
    data = {"obs": torch.zeros(1, 3), "action": torch.tensor([[1, 0]])}
    assert bc.loss(data)[0].item() == pytest.approx(math.log(4 / 3) + math.log(2.0), abs=1e-6)


@pytest.mark.parametrize("loss", ["mse", "likelihood"])
def test_it_learns_the_mean_of_what_was_done(loss: str) -> None:
    bc = algorithm("bc", loss=loss, learning_rate=1e-2, normalize_obs=False)
    data = batch(64) | {"action": torch.tensor([0.2, 0.6]).repeat(32)[:, None]}
    data["obs"] = data["obs"][::2].repeat_interleave(2, 0)  # each observation with both
    for _ in range(400):
        bc.update(data)
    with torch.no_grad():
        assert (bc.policy.net(data["obs"]) - 0.4).abs().max().item() < 0.05
    if loss == "likelihood":
        assert bc.policy.log_std.exp().item() == pytest.approx(0.2, abs=0.03), "half the distance of the two"


def test_it_learns_from_normalized_observations() -> None:
    bc = algorithm("bc")
    bc.policy.normalizer.fit(torch.tensor([[2.0, 0.0, 0.0], [4.0, 0.0, 0.0]]), eps=0.0)
    seen: list[Any] = []
    bc.loss = lambda data: (seen.append(data["obs"][:, 0].tolist()), (bc.policy.net(data["obs"]).sum(), {}))[1]
    bc.update({"obs": torch.tensor([[3.0, 0.0, 0.0], [5.0, 0.0, 0.0]]), "action": torch.zeros(2, 1)})
    assert seen == [pytest.approx([0.0, 2.0])]


def test_an_update_moves_the_policy() -> None:
    bc = algorithm("bc", loss="likelihood")
    assert changed_parts(bc, lambda: bc.update(batch())) == {"policy"}


def test_a_loss_for_other_actions_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"loss = mse is for continuous actions"):
        rule(gym.spaces.Discrete(3), loss="mse")
    with pytest.raises(ConfigError, match=r"log_std_init is the deviation of a Gaussian"):
        rule(gym.spaces.Box(-1.0, 1.0, (2,), np.float32), log_std_init=-1.0)


def test_env_steps_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"bc learns from stored data alone.*total_steps = 100"):
        BC("Pendulum-v1", dataset="none", offline_updates=10, total_steps=100).learn()
