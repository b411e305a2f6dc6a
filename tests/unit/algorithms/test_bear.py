"""BEAR: the actor's objective before and after the warm start, and the price of leaving the data's actions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from sac_family import algorithm, batch, changed_parts, constant_outputs

from rl_training import BEAR
from rl_training.errors import ConfigError
from rl_training.objectives.mmd import mmd


def bear(**settings: Any) -> Any:
    return algorithm("bear", vae_hidden=(16, 16), **settings)


def test_the_target_is_the_best_of_the_policys_actions() -> None:
    """Critics (1, 3) for the first action and (2, 2.5) for the second: 1.5 and 2.125."""
    rule = bear(next_actions=2)
    values = torch.tensor([[1.0, 2.0], [3.0, 2.5]])
    asked = []
    rule.critic_target.net.of_many = lambda obs, action: asked.append(action) or values[:, None].expand(2, len(action), 2)
    constant_outputs(rule.critic, [0.0, 0.0])
    data = batch(2) | {"reward": torch.ones(2)}
    torch.manual_seed(1)
    assert rule.critic_loss(data)[1]["td"].tolist() == pytest.approx([1 + 0.9 * 2.125, 1.0])
    torch.manual_seed(1)
    with torch.no_grad():
        assert torch.equal(asked[0], rule.actor(data["next_obs"], torch.randn(2, 2, 1)))


@pytest.mark.parametrize("climbs", [False, True])
def test_the_actors_objective(climbs: bool) -> None:
    rule, data = bear(distance=0.2, sigma=5.0, kernel="gaussian"), batch(8)
    rule.alpha_optim.flat.fill_(1.5)
    torch.manual_seed(1)
    loss, out = rule.actor_loss(data, climbs)
    torch.manual_seed(1)
    stored = rule.vae.decode(data["obs"], torch.randn(8, 4, 2).clamp(-0.5, 0.5))
    proposed = rule.actor.before_tanh(data["obs"], torch.randn(8, 4, 1))
    distance = mmd(stored, proposed, "gaussian", 5.0).mean()
    assert out["mmd"].item() == pytest.approx(distance.item(), rel=1e-6)
    q = rule.critic(data["obs"], proposed[:, 0].tanh()).min(0).values.mean().item() if climbs else 0.0
    assert loss.item() == pytest.approx(np.exp(1.5) * (distance.item() - 0.2) - q, rel=1e-5)


def test_the_actor_follows_the_smaller_critic() -> None:
    rule = bear()
    rule.alpha_optim.flat.fill_(-50.0)
    constant_outputs(rule.critic, [3.0, -2.0])
    assert rule.actor_loss(batch(), True)[0].item() == pytest.approx(2.0)


def test_it_comes_near_the_datas_actions_first() -> None:
    rule = bear(warm_start=3)
    assert [rule.schedule(n)["climbs"] for n in range(5)] == [False, False, False, True, True]


def test_the_warm_start_brings_the_actor_to_the_model() -> None:
    rule, data = bear(actor_learning_rate=1e-2), batch(64)
    rule.vae.decoder[-1].bias.data.fill_(1.5)
    first = rule.actor_loss(data, False)[1]["mmd"].item()
    for _ in range(200):
        rule.actor_optim.minimize("actor_loss", data, False)
    assert rule.actor_loss(data, False)[1]["mmd"].item() < 0.3 * first
    middle = rule.actor.before_tanh(data["obs"], torch.zeros(64, 1, 1)).mean().item()
    assert middle == pytest.approx(1.5, abs=0.4), "before the tanh"


@pytest.mark.parametrize(("distance", "rises"), [(0.06, True), (0.04, False)])
def test_the_price_rises_while_the_actor_is_too_far(distance: float, rises: bool) -> None:
    rule = bear(distance=0.05)
    rule.alpha_optim.minimize("alpha_loss", torch.tensor(distance))
    assert (rule.log_alpha.item() > 0) == rises and rule.log_alpha.item() != 0


@pytest.mark.parametrize(("distance", "start", "end"), [(0.0, 9.999, 10.0), (100.0, -4.999, -5.0)])
def test_the_price_is_bounded(distance: float, start: float, end: float) -> None:
    rule = bear(distance=distance, alpha_learning_rate=1.0)
    rule.alpha_optim.flat.fill_(start)
    rule.update(batch(), climbs=True)
    assert rule.log_alpha.item() == end


def test_each_loss_moves_its_own_part_alone() -> None:
    for name, part, extra in (("vae", "behaviour", ()), ("critic", "policy", ()), ("actor", "policy", (True,))):
        rule = bear()
        others = {"vae": ["policy"], "critic": ["policy.net.actor"], "actor": ["policy.net.critic"]}[name]
        before = {key: p.detach().clone() for key, p in rule.named_parameters()}
        minimize = partial(getattr(rule, f"{name}_optim").minimize, f"{name}_loss", batch(), *extra)
        assert changed_parts(rule, minimize) == {part}
        after = dict(rule.named_parameters())
        assert all(torch.equal(before[key], after[key]) for key in before if key.startswith(tuple(others)))


def test_an_update_moves_everything() -> None:
    rule = bear()
    moved = changed_parts(rule, partial(rule.update, batch(), climbs=False))
    assert moved == {"behaviour", "policy", "log_alpha", "critic_target"}


def test_it_cannot_explore_by_more_actions_than_there_are() -> None:
    with pytest.raises(ConfigError, match=r"candidates = 5 is fewer than algorithm.next_actions = 10"):
        BEAR("Pendulum-v1", candidates=5)
