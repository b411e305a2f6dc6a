"""EDAC: slopes at stored actions, what they teach the critics, and SAC-N where they cost nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sac_family import algorithm, batch, constant_outputs
from torch import Tensor

from rl_training import EDAC, SACN
from rl_training.config import from_keywords
from rl_training.errors import ConfigError
from rl_training.specs import ActionSpec, Leaf, ObsSpec


def made(kind: Any, **settings: Any) -> Any:
    """A rule for actions of two dimensions."""
    torch.set_num_threads(1)
    config = from_keywords(kind.name, env_id="none", hidden=(16, 16), **settings)
    torch.manual_seed(3)
    return kind.build(config, ObsSpec((Leaf("", (3,), "float32"),)), ActionSpec("continuous", dim=2)).algorithm


def edac(**settings: Any) -> Any:
    """One whose slopes are not next to nothing."""
    rule = made(EDAC, **settings)
    for p in rule.critic.body[-1].parameters():
        p.data.uniform_(-1.0, 1.0)
    return rule


def data() -> dict[str, Tensor]:
    return batch() | {"action": torch.randn(16, 2, generator=torch.Generator().manual_seed(2)).tanh()}


def one_by_one(rule: Any, rows: dict[str, Tensor]) -> Tensor:
    """The slopes by as many separate gradients as there are critics."""
    slopes = []
    for i in range(rule.config.members):
        action = rows["action"].clone().requires_grad_()
        q = rule.critic(rows["obs"], action)[i].sum()
        slopes.append(torch.autograd.grad(q, action, create_graph=True)[0])
    return torch.stack(slopes)


def penalty(slopes: Tensor) -> Tensor:
    """Its definition, pair by pair."""
    unit = slopes / (slopes.norm(dim=-1, keepdim=True) + 1e-10)
    pairs = torch.einsum("iba,jba->bij", unit, unit)
    return (pairs * (1 - torch.eye(len(slopes)))).sum((1, 2)).mean() / (len(slopes) - 1)


def test_slopes_are_those_of_every_critic_at_the_stored_actions() -> None:
    rule, rows = edac(members=4), data()
    slopes = rule.slopes(rows)
    assert slopes.shape == (4, 16, 2)
    torch.testing.assert_close(slopes, one_by_one(rule, rows))
    assert not torch.allclose(slopes, rule.slopes(rows | {"action": -rows["action"]})), "they depend on the stored action"


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_the_penalty_teaches_the_critics_through_their_slopes(activation: str) -> None:
    rule, rows = edac(members=4, eta=2.0, activation=activation), data()
    parameters = list(rule.critic.parameters())
    gradients = []
    for eta in (0.0, 2.0):
        object.__setattr__(rule.config, "eta", eta)
        torch.manual_seed(1)
        gradients.append(torch.autograd.grad(rule.critic_loss(rows)[0], parameters))
    wanted = torch.autograd.grad(2.0 * penalty(one_by_one(rule, rows)), parameters, allow_unused=True)
    moved = 0
    for without, given, expected in zip(*gradients, wanted):
        expected = torch.zeros_like(without) if expected is None else expected
        torch.testing.assert_close(given - without, expected, atol=2e-5, rtol=1e-4)
        moved += bool(expected.abs().max() > 1e-3)
    assert moved >= 3, "the weights of all layers have a part in it"


def test_the_penalty_is_added_eta_times() -> None:
    rule, rows = edac(members=4, eta=3.0), data()
    torch.manual_seed(1)
    loss, out = rule.critic_loss(rows)
    object.__setattr__(rule.config, "eta", 0.0)
    torch.manual_seed(1)
    plain = rule.critic_loss(rows)[0]
    assert out["alignment"].item() == pytest.approx(penalty(one_by_one(rule, rows)).item(), abs=1e-5)
    assert (loss - plain).item() == pytest.approx(3.0 * out["alignment"].item(), rel=1e-4)


def test_critics_turn_away_from_each_other() -> None:
    learned = {}
    for eta in (0.0, 10.0):
        rule, rows = edac(members=4, eta=eta, learning_rate=1e-2), data()
        for _ in range(60):
            rule.critic_optim.minimize("critic_loss", rows)
        learned[eta] = penalty(one_by_one(rule, rows)).item()
    assert learned[10.0] < -0.8 < 0.0 < learned[0.0], learned  # -4/3 at the least


def same_weights(rules: list[Any], rows: dict[str, Tensor]) -> bool:
    """Whether two rules learn the same, to the last bit, from the same start."""
    rules[1].load_state_dict(rules[0].state_dict())
    for rule in rules:
        torch.manual_seed(1)
        for _ in range(3):
            rule.update(rows)
    states = [rule.state_dict() for rule in rules]
    assert states[0].keys() == states[1].keys()
    return all(torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_without_a_price_it_is_sac_n() -> None:
    sac_n = made(SACN, members=4)
    assert same_weights([sac_n, made(EDAC, members=4, eta=0.0)], data())
    assert not same_weights([sac_n, made(EDAC, members=4, eta=1e-3)], data())


def test_in_one_dimension_it_is_sac_n_and_a_price_is_refused() -> None:
    assert same_weights([algorithm("sac_n", members=4), algorithm("edac", members=4)], batch())
    for eta in (0.0, 5.0):
        with pytest.raises(ConfigError, match=r"eta = .* no effect"):
            algorithm("edac", eta=eta)


def test_critics_without_slope_stay_finite() -> None:
    rule = edac(members=3)
    constant_outputs(rule.critic, [1.0, 2.0, 3.0])
    rule.update(data())
    assert all(p.isfinite().all() for p in rule.parameters())


def test_one_critic_has_none_to_differ_from() -> None:
    with pytest.raises(ConfigError, match="members"):
        EDAC("Pendulum-v1", members=1)
