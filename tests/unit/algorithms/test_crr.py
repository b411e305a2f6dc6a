"""CRR: its baselines and filters by hand, when its targets move, and cloning as its limit."""

from __future__ import annotations

import math

import pytest
import torch
from sac_family import algorithm, batch, changed_parts
from weighted_family import Draws, Reads, weights

from rl_training import CRR
from rl_training.errors import ConfigError


@pytest.mark.parametrize(("baseline", "advantage"), [("mean", 0.25), ("max", -1.0)])
def test_the_baseline_of_crr(baseline: str, advantage: float) -> None:
    """Q(s, a) = 2 and samples worth 1, 3, 2, 1."""
    found, binary = weights("crr", [1.0, 3.0, 2.0, 1.0], [2.0], baseline=baseline)
    assert found == pytest.approx([advantage]) and binary == [float(advantage > 0)]
    _, exponential = weights("crr", [1.0, 3.0, 2.0, 1.0], [2.0], baseline=baseline, filter="exponential")
    assert exponential == pytest.approx([math.exp(advantage)], abs=1e-5)
    if baseline == "mean":
        assert exponential == pytest.approx([1.284025], abs=1e-5)


def test_samples_are_compared_with_the_action_of_their_own_row() -> None:
    crr = algorithm("crr", samples=2)
    crr.critic, crr.policy = Reads(), Draws([1.0, 3.0])
    obs = torch.tensor([[1.0, 0.0, 0.0], [10.0, 0.0, 0.0]])
    assert crr.baseline(obs).tolist() == [2.0, 20.0]


def test_the_binary_filter_drops_what_is_as_good_as_the_baseline() -> None:
    assert weights("crr", [1.0], [1.0, 1.01, 0.99], samples=1)[1] == [0.0, 1.0, 0.0]


def test_the_exponential_of_crr_has_a_temperature_and_a_cap() -> None:
    settings = {"samples": 1, "filter": "exponential"}
    assert weights("crr", [1.0], [1.0 + math.log(2.0), 9.0], temperature=0.5, **settings)[1] == pytest.approx([4.0, 20.0])


def test_an_unbiased_filter_clones() -> None:
    """With every weight 1, CRR's actor takes the step of BC."""
    crr, bc = algorithm("crr", filter="exponential", temperature=1e9), algorithm("bc", loss="likelihood", normalize_obs=False)
    bc.policy.load_state_dict(crr.policy.state_dict())
    data = batch()
    crr.actor_optim.minimize("actor_loss", crr.weighted(data))
    bc.update(data)
    for found, expected in zip(crr.policy.parameters(), bc.policy.parameters()):
        torch.testing.assert_close(found, expected)


def test_targets_of_crr_move_when_it_is_their_turn() -> None:
    crr = algorithm("crr", tau=1.0, target_update_interval=3)
    moved = [changed_parts(crr, lambda n=n: crr.update(batch(seed=n), **crr.schedule(n))) for n in range(3)]
    assert moved == [{"critic", "policy"}] * 2 + [{"critic", "policy", "target", "actor_target"}]
    for name, parameter in crr.critic.named_parameters():
        torch.testing.assert_close(dict(crr.target.net.named_parameters())[name], parameter)


@pytest.mark.parametrize("name", ["temperature", "max_weight"])
def test_settings_of_the_exponential_are_refused_without_it(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"algorithm.{name} = 3.0 has no effect with the binary filter"):
        CRR("Pendulum-v1", **{name: 3.0})
