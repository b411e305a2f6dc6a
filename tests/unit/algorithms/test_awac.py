"""AWAC, and what CRR shares with it: targets and weights by hand, and what sees which networks."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from sac_family import algorithm, batch, changed_parts, constant_outputs
from weighted_family import weights


def test_weights_of_awac_grow_exponentially_up_to_a_cap() -> None:
    taken = [1.0, 1.0 + math.log(2.0), 1.0 + math.log(1000.0)]
    advantage, weight = weights("awac", [1.0], taken, temperature=1.0)
    assert advantage == pytest.approx([0.0, math.log(2.0), math.log(1000.0)], abs=1e-5)
    assert weight == pytest.approx([1.0, 2.0, 100.0], abs=1e-5)
    assert weights("awac", [1.0], [1.0 + math.log(2.0)], temperature=0.5)[1] == pytest.approx([4.0], abs=1e-5)


def test_the_target_takes_the_lesser_critic_and_an_action_of_the_policy() -> None:
    """r = 1, gamma = 0.99, target critics that say 3 and 5: y = 3.97, and 1 where nothing follows."""
    for name in ("awac", "crr"):
        rule = algorithm(name)
        constant_outputs(rule.critic, [0.0, 0.0])
        constant_outputs(rule.target.net, [3.0, 5.0])
        data = batch(2) | {"reward": torch.ones(2), "discount": torch.tensor([0.99, 0.0])}
        loss, out = rule.critic_loss(data)
        assert out["td"].tolist() == pytest.approx([3.97, 1.0])
        assert loss.item() == pytest.approx((3.97**2 + 1.0), rel=1e-5), "the mean over rows, summed over critics"


def test_who_acts_in_successors() -> None:
    """AWAC: the policy as it is. CRR: the one that lags."""
    for name, lagging in (("awac", False), ("crr", True)):
        rule = algorithm(name, normalize_obs=False)
        rule.policy.log_std.data.fill_(-10.0)
        if lagging:
            rule.actor_target.net.log_std.data.fill_(-10.0)
            for parameter in rule.policy.net.parameters():
                parameter.data.zero_()
        obs = batch()["next_obs"]
        actor = rule.actor_target.net if lagging else rule.policy
        with torch.no_grad():
            expected = actor.net(obs).clamp(-1, 1)
        assert expected.abs().max().item() > 0.05
        assert (rule.next_action(obs) - expected).abs().max().item() < 0.05


def test_the_actor_clones_by_weight_and_weights_are_constants() -> None:
    """The gradient of the loss is that of -mean(w log pi) with w as a number, and none reaches a critic."""
    rule = algorithm("awac")
    data = rule.weighted(batch())
    assert not data["actor_weight"].requires_grad
    loss, _ = rule.actor_loss(data)
    mean = rule.policy.net(data["obs"])
    std = rule.policy.log_std.exp()
    log_prob = torch.distributions.Normal(mean, std).log_prob(data["action"]).sum(-1)
    by_hand = -(torch.tensor(data["actor_weight"].tolist()) * log_prob).mean()
    assert loss.item() == pytest.approx(by_hand.item(), rel=1e-5)
    parameters = list(rule.policy.parameters())
    for found, expected in zip(torch.autograd.grad(loss, parameters), torch.autograd.grad(by_hand, parameters)):
        torch.testing.assert_close(found, expected)


def test_the_mean_of_awac_is_not_squashed() -> None:
    awac = algorithm("awac")
    awac.policy.net[-1].bias.data.fill_(3.0)
    assert awac.policy.net(torch.zeros(1, 3)).item() > 2.0
    assert awac.policy.sample(torch.zeros(1, 3)).abs().max().item() <= 1.0


class Watched:
    """Remembers, when weights are made, whether the critic had already moved."""

    def __init__(self, rule: Any) -> None:
        self.before, self.rule, self.original = rule.critic.body[0].weight.detach().clone(), rule, rule.weighted
        self.moved: list[bool] = []
        rule.weighted = self

    def __call__(self, data: Any) -> Any:
        self.moved.append(not torch.equal(self.before, self.rule.critic.body[0].weight))
        return self.original(data)


def test_awac_weighs_by_the_new_critics_and_crr_by_the_old() -> None:
    for name, moved in (("awac", [True]), ("crr", [False])):
        rule = algorithm(name)
        watched = Watched(rule)
        rule.update(batch())
        assert watched.moved == moved, name


def test_each_loss_moves_its_own_part_alone() -> None:
    for loss, part in (("critic", "critic"), ("actor", "policy")):
        rule = algorithm("awac")
        data = rule.weighted(batch())
        assert changed_parts(rule, lambda: getattr(rule, f"{loss}_optim").minimize(f"{loss}_loss", data)) == {part}  # noqa: B023
