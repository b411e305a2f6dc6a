"""XQL: Gumbel regression by hand, its fixed points, and what it changes of IQL."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from sac_family import algorithm, batch, changed_parts, constant_outputs

from rl_training import XQL
from rl_training.errors import ConfigError
from rl_training.objectives.gumbel import gumbel_loss

DATA = {"dataset": "made", "offline_updates": 10}


def test_the_loss_by_hand() -> None:
    z = torch.tensor([-1.0, 0.0, 2.0])
    plain = torch.tensor([0.3678794, 0.0, 4.3890561])
    loss = gumbel_loss(z, clip=5.0)
    torch.testing.assert_close(loss, plain * math.exp(-2.0), atol=1e-6, rtol=0)  # m = 2
    assert loss.tolist() == pytest.approx([0.0497871, 0.0, 0.5939942], abs=1e-6)
    assert loss.mean().item() == pytest.approx(0.2145938, abs=1e-6)
    assert (loss * math.exp(2.0)).mean().item() == pytest.approx(1.585645, abs=1e-5)


def test_m_is_at_least_minus_one() -> None:
    z = torch.tensor([-4.0, -3.0])
    torch.testing.assert_close(gumbel_loss(z, 5.0), (z.exp() - z - 1) * math.e)


@pytest.mark.parametrize(
    ("q", "clip", "gradient"), [([10.0, 12.0], 5.0, 0.0), ([1.0, 12.0], 5.0, -0.00579), ([1.0, 12.0], 99.0, -0.5)]
)
def test_what_is_clipped_has_no_gradient(q: list[float], clip: float, gradient: float) -> None:
    value = torch.zeros((), requires_grad=True)
    (got,) = torch.autograd.grad(gumbel_loss(torch.tensor(q) - value, clip).mean(), value)
    assert got.item() == pytest.approx(gradient, abs=1e-4)


def test_nothing_overflows() -> None:
    value = torch.zeros((), requires_grad=True)
    loss = gumbel_loss(torch.tensor([5_000.0, 0.0]) - value, clip=1e4).mean()
    (gradient,) = torch.autograd.grad(loss, value)
    assert loss.isfinite() and gradient.isfinite() and gradient.item() < 0


@pytest.mark.parametrize(("beta", "expected"), [(0.5, 0.716890), (1.0, 0.620115), (2.0, 0.561860), (10.0, 0.512495)])
def test_a_state_is_worth_the_soft_maximum_of_its_actions(beta: float, expected: float) -> None:
    """V = beta log mean exp(Q / beta) for Q of 0 and 1: the loss of the rule itself has its minimum there."""
    xql = algorithm("xql", gumbel_beta=beta, hidden=(), **DATA)
    data = batch(2) | {"target_q": torch.tensor([0.0, 1.0])}
    layer: Any = xql.value.body[0]
    layer.weight.data.zero_()
    for _ in range(3_000):
        loss, _ = xql.value_loss(data)
        (gradient,) = torch.autograd.grad(loss, layer.bias)
        layer.bias.data -= 0.2 * beta * gradient
    assert layer.bias.item() == pytest.approx(expected, abs=1e-5)
    assert expected == pytest.approx(beta * math.log((1 + math.exp(1 / beta)) / 2), abs=1e-6)


def test_rows_weigh_in_the_value_loss() -> None:
    xql = algorithm("xql", **DATA)
    data = batch(4) | {"target_q": torch.tensor([0.5, -0.5, 1.0, 0.0])}
    z = data["target_q"] - xql.value(data["obs"]).detach()
    weight = torch.tensor([1.0, 0.0, 0.5, 2.0])
    m = max(z.max().item(), -1.0)
    by_hand = sum(w * (math.exp(x - m) - x * math.exp(-m) - math.exp(-m)) for w, x in zip(weight.tolist(), z.tolist())) / 4
    assert xql.value_loss(data | {"weight": weight})[0].item() == pytest.approx(by_hand, rel=1e-5)


def test_critics_feel_errors_beyond_20_linearly() -> None:
    xql = algorithm("xql", **DATA)
    constant_outputs(xql.critic, [30.0, 2.0])
    data = batch(3) | {"reward": torch.zeros(3), "discount": torch.zeros(3)}
    assert xql.critic_loss(data)[0].item() == pytest.approx(20 * (30 - 10) + 0.5 * 4)
    data |= {"weight": torch.tensor([1.0, 0.5, 0.0])}
    assert xql.critic_loss(data)[0].item() == pytest.approx((400 + 2) * 1.5 / 3)


def test_each_loss_moves_its_own_part_alone() -> None:
    data = batch() | {"target_q": torch.randn(16)}
    for loss, part in (("value", "value"), ("actor", "policy"), ("critic", "critic")):
        xql = algorithm("xql", **DATA)
        update = partial(getattr(xql, f"{loss}_optim").minimize, f"{loss}_loss", data)
        assert changed_parts(xql, update) == {part}


def test_the_values_take_several_steps_per_update() -> None:
    one, three = (algorithm("xql", value_steps=steps, **DATA) for steps in (1, 3))
    for xql in (one, three):
        xql.update(batch())
    assert (one.value_optim.steps.item(), three.value_optim.steps.item()) == (1, 3)
    assert (three.critic_optim.steps.item(), three.actor_optim.steps.item()) == (1, 1)
    # the same as three steps on that batch
    by_hand = algorithm("xql", **DATA)
    data = batch()
    with torch.no_grad():
        data |= {"target_q": by_hand.target(data["obs"], data["action"]).min(0).values}
    for _ in range(3):
        by_hand.value_optim.minimize("value_loss", data)
    torch.testing.assert_close(by_hand.value_optim.flat, three.value_optim.flat)


def names(net: Any) -> list[str]:
    return [type(layer).__name__ for layer in net.modules() if "Norm" in type(layer).__name__]


def test_only_the_state_values_are_normalized_unless_asked() -> None:
    xql = algorithm("xql", **DATA)
    assert names(xql.value) == ["LayerNorm"] * 2 and not names(xql.critic) and not names(xql.policy)
    asked = algorithm("xql", layer_norm=True, **DATA)
    assert names(asked.critic) == ["EnsembleLayerNorm"] * 2 and names(asked.policy) == ["LayerNorm"] * 2
    blocks = algorithm("xql", block="residual", **DATA)
    assert len(names(blocks.value)) == 3, "residual blocks bring their own"


def test_a_large_beta_is_the_mean_and_so_iqls_middle_expectile() -> None:
    """To second order the Gumbel loss is half the square: IQL of expectile 0.5 has the same gradient up to a factor."""
    xql, iql = algorithm("xql", gumbel_beta=1e3, **DATA), algorithm("iql", expectile=0.5, layer_norm=True, **DATA)
    iql.value.load_state_dict(xql.value.state_dict())
    data = batch() | {"target_q": torch.randn(16)}
    found = []
    for rule in (xql, iql):
        grads = torch.autograd.grad(rule.value_loss(data)[0], list(rule.value.parameters()))
        flat = torch.cat([g.flatten() for g in grads])
        found.append(flat / flat.norm())
    torch.testing.assert_close(found[0], found[1], atol=2e-2, rtol=0)
    assert float(found[0] @ found[1]) > 0.999


def test_discrete_actions_learn_by_the_same_losses() -> None:
    torch.set_num_threads(1)
    rule: Any = XQL("CartPole-v1", hidden=(8, 8), **DATA).parts.algorithm
    rng = np.random.default_rng(0)
    data = {key: torch.from_numpy(rng.standard_normal((16, 4)).astype(np.float32)) for key in ("obs", "next_obs")}
    data |= {"action": torch.from_numpy(rng.integers(2, size=16)), "reward": torch.ones(16), "discount": torch.full((16,), 0.9)}
    assert changed_parts(rule, lambda: rule.update(data | {"weight": torch.ones(16)})) >= {"value", "policy", "critic"}


def test_an_expectile_is_unknown_to_it() -> None:
    with pytest.raises(ConfigError, match="expectile"):
        XQL(lambda: gym.make("Pendulum-v1"), expectile=0.9, **DATA)
