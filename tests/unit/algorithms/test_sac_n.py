"""SAC-N: the minimum over all critics in target and actor, the order of its steps, and where its networks start."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sac_family import algorithm, batch, changed_parts, constant_outputs, fixed_log_prob
from torch import nn

from rl_training.models.ensemble import EnsembleLinear


def test_the_target_is_the_least_of_all_with_the_entropy_to_come() -> None:
    """Members worth 10 .. 1, alpha = 0.5 and a log-density of -2: 1 + 0.5 * 2 = 2; with r = 1 and 0.9 of it, 2.8."""
    rule = algorithm("sac_n", alpha=0.5)
    constant_outputs(rule.target.net, [float(i) for i in range(10, 0, -1)])
    constant_outputs(rule.critic, [0.0] * 10)
    data = batch(2) | {"reward": torch.ones(2)}
    with fixed_log_prob(rule.policy, -2.0):
        assert rule.next_value(data["next_obs"]).tolist() == pytest.approx([2.0, 2.0])
        loss, out = rule.critic_loss(data)
    assert out["td"].tolist() == pytest.approx([2.8, 1.0])
    assert loss.item() == pytest.approx(10 * (2.8**2 + 1.0) / 2, rel=1e-5), "a sum over critics of means over the batch"


def test_the_actor_climbs_the_least_of_all() -> None:
    rule = algorithm("sac_n", alpha=0.5)
    constant_outputs(rule.critic, [float(i) for i in range(3, 13)])
    with fixed_log_prob(rule.policy, -2.0):
        assert rule.actor_loss(batch())[0].item() == pytest.approx(0.5 * -2.0 - 3.0)


def test_two_critics_have_the_losses_of_sac() -> None:
    sac, rule = algorithm("sac", hidden=(8, 8)), algorithm("sac_n", members=2)
    rule.load_state_dict(sac.state_dict())
    for name in ("critic_loss", "actor_loss"):
        losses = []
        for one in (sac, rule):
            torch.manual_seed(1)
            losses.append(getattr(one, name)(batch())[0])
        assert torch.equal(*losses), name


def test_temperature_actor_critics_and_targets_move_in_this_order(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = algorithm("sac_n", learning_rate=1e-2)
    seen: list[set[str]] = []

    def note(part: Any, name: str) -> None:
        move, results = getattr(part, name), []

        def noted(*args: Any) -> Any:
            seen.append(changed_parts(rule, lambda: results.append(move(*args))))
            return results.pop()

        monkeypatch.setattr(part, name, noted)

    for optim in (rule.critic_optim, rule.alpha_optim, rule.actor_optim):
        note(optim, "minimize")
    note(rule.target, "update")
    rule.update(batch())
    assert seen == [{"log_alpha"}, {"policy"}, {"critic"}, {"target"}]


@pytest.mark.parametrize(("log_prob", "rises"), [(-2.0, False), (2.0, True)])
def test_the_temperature_follows_the_entropy(log_prob: float, rises: bool) -> None:
    """The target is -1: an entropy of 2 is too much, so the temperature falls; one of -2 is too little."""
    rule = algorithm("sac_n")
    before = rule.log_alpha.item()
    with fixed_log_prob(rule.policy, log_prob):
        rule.update(batch())
    assert (rule.log_alpha.item() > before) == rises


def test_a_temperature_that_is_not_learned_stays() -> None:
    rule = algorithm("sac_n", learn_alpha=False)
    assert changed_parts(rule, lambda: rule.update(batch())) == {"critic", "policy", "target"}


def test_networks_start_near_zero() -> None:
    rule = algorithm("sac_n", hidden=(8, 8, 8))
    for body, bound in ((rule.policy.net, 1e-3), (rule.critic.body, 3e-3)):
        *hidden, last = [layer for layer in body if isinstance(layer, nn.Linear | EnsembleLinear)]
        assert len(hidden) == 3 and all((layer.bias == 0.1).all() for layer in hidden)
        assert all(layer.weight.std() > 0.1 for layer in hidden), "hidden weights start as they always do"
        assert bound * 0.5 < last.weight.abs().max().item() <= bound
        assert 0 < last.bias.abs().max().item() <= bound
    assert torch.equal(rule.target.flat, rule.critic_optim.flat)
