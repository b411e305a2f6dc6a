"""ReBRAC: both penalties by hand, where the critics' one must not be, how networks start, and what changes online."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from sac_family import algorithm, batch, changed_parts, constant_outputs
from torch import Tensor

from rl_training import ReBRAC
from rl_training.errors import ConfigError


class TwoActions(gym.Env[Any, Any]):
    """Only its spaces are used."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)


def rule(**settings: Any) -> Any:
    torch.set_num_threads(1)
    common: dict[str, Any] = {"hidden": (8, 8), "dataset": "made", "offline_updates": 100}
    return ReBRAC(TwoActions, **common | settings).parts.algorithm


def data(rows: int, **columns: Tensor) -> dict[str, Tensor]:
    zeros = torch.zeros(rows, 2)
    return batch(rows) | {"action": zeros, "next_action": zeros, "next_action_known": torch.ones(rows)} | columns


def target(known: float, discount: float, **settings: Any) -> float:
    """The target for r = 1, critics of 2 and 5, the next action (.2, -.1), and (0, .4) in the data."""
    rebrac = rule(critic_bc=0.5, **settings)
    constant_outputs(rebrac.critic, [0.0, 0.0])
    constant_outputs(rebrac.critic_target.net, [2.0, 5.0])
    rebrac.next_action = lambda obs: torch.tensor([[0.2, -0.1]])
    row = data(1, reward=torch.ones(1), discount=torch.tensor([discount]), next_action=torch.tensor([[0.0, 0.4]]))
    return float(rebrac.critic_loss(row | {"next_action_known": torch.tensor([known])})[1]["td"])


def test_the_target_by_hand() -> None:
    """1 + .99 (2 - .5 (.2^2 + .5^2)): the squares are summed, and discounted with what they lower."""
    assert target(known=1.0, discount=0.99) == pytest.approx(2.83645, abs=1e-6)
    assert target(known=0.0, discount=0.99) == pytest.approx(2.98, abs=1e-6), "no penalty where the episode was cut"
    assert target(known=1.0, discount=0.0) == pytest.approx(1.0, abs=1e-6), "nor where it ended"


def actor_loss(q: Tensor, action: Tensor, stored: Tensor, actor_bc: float) -> Tensor:
    rebrac = rule(actor_bc=actor_bc)
    rebrac.critic.forward = lambda obs, action: q
    rebrac.policy.net.forward = lambda obs: action
    loss: Tensor = rebrac.actor_loss(data(len(action), action=stored))[0]
    return loss


def test_the_actor_objective_by_hand() -> None:
    q = torch.tensor([[-2.0, 4.0], [0.0, 9.0]], requires_grad=True)
    action = torch.tensor([[0.5, 0.0], [0.0, 0.0]], requires_grad=True)
    loss = actor_loss(q, action, torch.tensor([[0.0, 1.0], [1.0, 0.0]]), 0.1)
    assert loss.item() == pytest.approx(-0.2208333, abs=1e-6)  # (.125 + .1) / 2 - 1 / 3, by the lesser critic
    by_q, by_action = torch.autograd.grad(loss, (q, action))
    assert by_q.flatten().tolist() == pytest.approx([-1 / 6, -1 / 6, 0, 0]), "mean |Q| = 3 is a constant to the gradient"
    torch.testing.assert_close(by_action, 0.1 * 2 * torch.tensor([[0.5, -1.0], [-1.0, 0.0]]) / 2)


def test_without_weights_it_is_td3_with_the_lesser_critic() -> None:
    rebrac, td3 = rule(critic_bc=0.0, actor_bc=0.0, layer_norm=False), rule(critic_bc=0.5)
    row = data(8, next_action=torch.randn(8, 2))
    td3.load_state_dict(rebrac.state_dict())
    td3.critic_bc.zero_()
    values = []
    for one in (rebrac, td3):
        torch.manual_seed(3)
        values.append(one.next_value(row))
    torch.manual_seed(3)
    plain = rebrac.critic_target(row["next_obs"], rebrac.next_action(row["next_obs"])).min(0).values
    assert torch.equal(values[0], plain) and torch.equal(values[1], plain)


def test_each_loss_moves_its_own_part_alone() -> None:
    for loss, part in (("critic", "critic"), ("actor", "policy")):
        rebrac = rule()
        update = partial(getattr(rebrac, f"{loss}_optim").minimize, f"{loss}_loss", data(16))
        assert changed_parts(rebrac, update) == {part}


def test_critics_are_normalized_after_the_activation_and_the_actor_is_not() -> None:
    rebrac = algorithm("rebrac")
    assert [type(layer).__name__ for layer in rebrac.critic.body] == ["EnsembleLinear", "ReLU", "EnsembleLayerNorm"] * 2 + [
        "EnsembleLinear"
    ]
    assert "LayerNorm" not in {type(layer).__name__ for layer in rebrac.policy.net}
    asked = algorithm("rebrac", layer_norm=True)
    assert "LayerNorm" in {type(layer).__name__ for layer in asked.policy.net}


def test_networks_start_small() -> None:
    rebrac = algorithm("rebrac", hidden=(64, 64))
    for layers, bound in ((rebrac.critic.body, 3e-3), (rebrac.policy.net, 1e-3)):
        *hidden, last = [layer for layer in layers if hasattr(layer, "bias") and "Linear" in type(layer).__name__]
        assert bound / 2 < last.weight.abs().max().item() <= bound and 0 < last.bias.abs().max().item() <= bound
        for layer in hidden:
            assert (layer.bias == 0.1).all()
            inputs = layer.weight.shape[-1] if layer.weight.ndim == 2 else layer.weight.shape[-2]
            assert 0.8 < layer.weight.abs().max().item() * inputs**0.5 <= 1.0


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"offline_updates": 100, "total_steps": 0}, {0.0: (0.2, 0.4), 0.5: (0.2, 0.4), 0.99: (0.2, 0.4)}),
        ({"offline_updates": 100, "total_steps": 300},
         {0.0: (0.2, 0.4), 99 / 400: (0.2, 0.4), 100 / 400: (0.2, 0.0), 250 / 400: (0.15, 0.0), 1.0: (0.1, 0.0)}),
    ],
)  # fmt: skip
def test_online_the_critics_part_is_off_and_the_actors_falls_to_half(
    settings: dict[str, Any], expected: dict[float, tuple[float, float]]
) -> None:
    rebrac = rule(actor_bc=0.2, critic_bc=0.4, **settings)
    for progress, weights in expected.items():
        rebrac.anneal(progress)
        assert (rebrac.actor_bc.item(), rebrac.critic_bc.item()) == pytest.approx(weights), progress


def test_from_the_first_env_step_on_without_a_phase_offline() -> None:
    rebrac = rule(actor_bc=0.2, offline_updates=0, total_steps=100)
    for progress, weight in ((0.0, 0.2), (0.5, 0.15), (1.0, 0.1)):
        rebrac.anneal(progress)
        assert (rebrac.actor_bc.item(), rebrac.critic_bc.item()) == pytest.approx((weight, 0.0))


def test_a_critics_part_that_would_be_off_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"critic_bc = 0.4 has no effect"):
        rule(critic_bc=0.4, offline_updates=0, total_steps=100)


def test_the_actor_may_have_a_step_size_of_its_own() -> None:
    one, two = rule(learning_rate=1e-3), rule(learning_rate=1e-3, actor_learning_rate=2e-4)
    assert [x.actor_optim.lr.item() for x in (one, two)] == pytest.approx([1e-3, 2e-4])
    assert two.critic_optim.lr.item() == pytest.approx(1e-3)


def test_batches_hold_the_next_action_and_half_of_them_is_stored_data() -> None:
    agent = ReBRAC(TwoActions, dataset="made", offline_updates=10, total_steps=10, hidden=(8, 8))
    assert agent.config.data.offline_fraction == 0.5
    assert agent.parts.buffer.storage.extras.names == {"next_action"}  # type: ignore[union-attr]
