"""IQL: which networks each loss reads and moves, the order of its steps, and its numbers by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from sac_family import batch, changed_parts

from rl_training import IQL
from rl_training.models.cloning import ClippedGaussianPolicy


def rule(**settings: Any) -> Any:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return IQL("Pendulum-v1", dataset="none", offline_updates=10, **({"hidden": (8, 8)} | settings)).parts.algorithm


def with_target_q(algorithm: Any, rows: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return rows | {"target_q": algorithm.target.net(rows["obs"], rows["action"]).min(0).values.detach()}


def test_losses_by_an_independent_calculation() -> None:
    algorithm, rows = rule(expectile=0.7, beta=3.0, max_weight=1.2), batch(seed=1)
    rows = with_target_q(algorithm, rows)
    value = algorithm.value(rows["obs"])
    u = rows["target_q"] - value
    weights = torch.tensor([0.7 if x > 0 else 0.3 for x in u.tolist()])
    assert float(algorithm.value_loss(rows)[0]) == pytest.approx(float((weights * u**2).mean()), rel=1e-5)
    weight = torch.tensor([min(math.exp(3.0 * x), 1.2) for x in u.tolist()])
    assert 0 < int((weight == 1.2).sum()) < len(weight), "some weights are cut, not all"
    normal = torch.distributions.Normal(algorithm.policy.net(rows["obs"]), algorithm.policy.log_std.exp())
    expected = -(weight * normal.log_prob(rows["action"]).sum(-1)).mean()
    assert float(algorithm.actor_loss(rows)[0]) == pytest.approx(float(expected), rel=1e-5)
    target = rows["reward"] + rows["discount"] * algorithm.value(rows["next_obs"])
    errors = [torch.nn.functional.mse_loss(q, target) for q in algorithm.critic(rows["obs"], rows["action"])]
    assert float(algorithm.critic_loss(rows)[0]) == pytest.approx(float(sum(errors)), rel=1e-5)


def test_each_loss_moves_its_own_network_alone() -> None:
    algorithm, rows = rule(), batch()
    rows = with_target_q(algorithm, rows)
    for optim, loss, moved in (("value_optim", "value_loss", "value"), ("actor_optim", "actor_loss", "policy"),
                               ("critic_optim", "critic_loss", "critic")):  # fmt: skip
        step = getattr(algorithm, optim)
        assert changed_parts(algorithm, lambda step=step, loss=loss: step.minimize(loss, rows)) == {moved}


def test_actor_and_critics_use_the_values_that_were_just_learned() -> None:
    """The update equals its steps by hand in the official order, and no other order."""
    by_hand, whole = rule(learning_rate=0.05), rule(learning_rate=0.05)
    rows = batch()
    whole.update(rows)
    given = with_target_q(by_hand, rows)
    for optim, loss in (("value_optim", "value_loss"), ("actor_optim", "actor_loss"), ("critic_optim", "critic_loss")):
        getattr(by_hand, optim).minimize(loss, given)
    by_hand.target.update()
    states = by_hand.state_dict(), whole.state_dict()
    assert [key for key in states[0] if not torch.equal(states[0][key], states[1][key])] == []
    other = rule(learning_rate=0.05)
    for optim, loss in (("critic_optim", "critic_loss"), ("actor_optim", "actor_loss"), ("value_optim", "value_loss")):
        getattr(other, optim).minimize(loss, given)
    assert not torch.equal(other.critic_optim.flat, whole.critic_optim.flat)


def test_an_expectile_of_one_half_is_a_mean() -> None:
    algorithm, rows = rule(expectile=0.5), batch(seed=2)
    rows = with_target_q(algorithm, rows)
    error = rows["target_q"] - algorithm.value(rows["obs"])
    assert float(algorithm.value_loss(rows)[0]) == pytest.approx(0.5 * float(error.square().mean()), rel=1e-5)


def test_without_temperature_the_actor_clones() -> None:
    algorithm, rows = rule(beta=0.0), batch(seed=3)
    rows = with_target_q(algorithm, rows)
    expected = -algorithm.policy.log_prob(rows["obs"], rows["action"]).mean()
    assert float(algorithm.actor_loss(rows)[0]) == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize(("schedule", "total_steps", "halfway"), [
    ("auto", 0, 0.5), ("auto", 100, 1.0), ("cosine", 100, 0.5), ("constant", 0, 1.0),
])  # fmt: skip
def test_the_actors_step_size_falls_along_a_cosine_unless_env_steps_follow(
    schedule: str, total_steps: int, halfway: float
) -> None:
    algorithm = rule(actor_schedule=schedule, total_steps=total_steps, learning_rate=1e-3)
    algorithm.anneal(0.5)
    assert float(algorithm.actor_optim.lr) == pytest.approx(1e-3 * halfway)
    assert float(algorithm.critic_optim.lr) == pytest.approx(1e-3)


def test_actions_at_the_bounds_have_a_density_and_samples_stay_inside() -> None:
    policy = rule(log_std_init=1.0).policy
    assert isinstance(policy, ClippedGaussianPolicy)
    obs = torch.randn(64, 3)
    assert policy.log_prob(obs, torch.ones(64, 1)).isfinite().all()
    assert float(policy.sample(obs).abs().max()) == 1.0, "many samples of a wide Gaussian are clipped"
    policy.log_std.data.fill_(-9.0)  # below the bound of -5
    wide = policy.evaluate(torch.zeros(1, 1), torch.zeros(1, 1))[0]
    assert float(wide) == pytest.approx(5.0 - 0.5 * math.log(2 * math.pi), abs=1e-5)
