"""MARWIL: weights by hand, the running size of advantages, what each part of the loss teaches, and BC as its limit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sac_family import algorithm, batch, changed_parts
from torch import Tensor


def weighted(advantages: list[float], **settings: Any) -> tuple[Any, dict[str, Tensor]]:
    """A rule and a batch with these advantages: its value says 0."""
    rule = algorithm("marwil", **settings)
    rule.critic.body[-1].weight.data.zero_()
    rule.critic.body[-1].bias.data.zero_()
    return rule, rule.weighted(batch(len(advantages)) | {"return": torch.tensor(advantages)})


def test_weights_by_hand() -> None:
    rule, data = weighted([1.0, -1.0, 3.0])
    assert data["actor_weight"].tolist() == pytest.approx([1.105171, 0.904837, 1.349859], abs=1e-5)
    assert rule.loss(data)[1]["value_loss"].item() == pytest.approx(1.833333, abs=1e-5)
    assert weighted([1.0, -1.0, 3.0], beta=2.0)[1]["actor_weight"][0].item() == pytest.approx(1.221403, abs=1e-5)


def test_the_running_size_takes_a_batch_in_before_it_is_used() -> None:
    rule, _ = weighted([1.0, -1.0, 3.0], norm_rate=0.01)
    assert rule.mean_square.item() == pytest.approx(99.036667, abs=1e-5)
    rule, data = weighted([2.0, -2.0], norm_rate=1.0)
    assert rule.mean_square.item() == pytest.approx(4.0, abs=1e-5)
    assert data["actor_weight"].tolist() == pytest.approx([2.718282, 0.367879], abs=1e-5)


def test_the_published_rate_moves_it_all_the_same() -> None:
    rule, data = weighted([1.0, -1.0, 3.0])
    for _ in range(999):
        rule.weighted(data)
    assert rule.mean_square.item() == pytest.approx(100.0 - 1000 * 1e-8 * (100.0 - 11 / 3), abs=1e-6)


def test_weights_have_no_limit_unless_one_is_given() -> None:
    assert weighted([60.0], norm_rate=0.0)[1]["actor_weight"].item() == pytest.approx(403.4288, rel=1e-5)
    assert weighted([60.0], norm_rate=0.0, max_weight=20.0)[1]["actor_weight"].item() == 20.0


def test_the_advantage_is_the_return_minus_the_value() -> None:
    rule = algorithm("marwil")
    rule.critic.body[-1].weight.data.zero_()
    rule.critic.body[-1].bias.data.fill_(2.0)
    stale = {"return": torch.tensor([5.0, 1.0]), "advantage": torch.full((2,), 77.0)}
    assert rule.weighted(batch(2) | stale)["advantage"].tolist() == [3.0, -1.0]


def test_without_beta_it_is_cloning() -> None:
    rule, bc = algorithm("marwil", beta=0.0, learning_rate=3e-4), algorithm("bc", loss="likelihood", normalize_obs=False)
    bc.policy.load_state_dict(rule.policy.state_dict())
    data = batch() | {"return": torch.randn(16)}
    rule.update(data)
    bc.update(data)
    for found, expected in zip(rule.policy.parameters(), bc.policy.parameters()):
        torch.testing.assert_close(found, expected)


def test_advantages_teach_the_policy_and_errors_the_value() -> None:
    rule = algorithm("marwil", vf_coef=3.0)
    data = rule.weighted(batch() | {"return": torch.randn(16)})
    assert not data["actor_weight"].requires_grad
    weight = torch.tensor(data["actor_weight"].tolist())
    cloning = -(weight * rule.policy.log_prob(data["obs"], data["action"])).mean()
    error = 3.0 * 0.5 * (data["return"] - rule.critic(data["obs"])).square().mean()
    loss, _ = rule.loss(data)
    assert loss.item() == pytest.approx((cloning + error).item(), rel=1e-5)
    for part, expected in ((rule.policy, cloning), (rule.critic, error)):
        parameters = list(part.parameters())
        pairs = zip(torch.autograd.grad(loss, parameters, retain_graph=True), torch.autograd.grad(expected, parameters))
        for found, wanted in pairs:
            torch.testing.assert_close(found, wanted)


def test_one_step_moves_policy_and_value() -> None:
    rule = algorithm("marwil")
    assert changed_parts(rule, lambda: rule.update(batch() | {"return": torch.randn(16)})) == {"policy", "critic"}


def test_returns_go_on_after_a_time_limit_by_its_own_value() -> None:
    rule = algorithm("marwil")
    data = {"obs": torch.randn(5, 1, 3), "next_obs": torch.randn(5, 1, 3), "reward": torch.zeros(5, 1),
            "truncated": torch.tensor([0, 1, 0, 0, 0]).bool()[:, None]}  # fmt: skip
    out = rule.prepare(data)
    with torch.no_grad():
        value, after = rule.critic(data["obs"][:, 0]), rule.critic(data["next_obs"][:, 0])
    torch.testing.assert_close(out["value"][:, 0], value)
    # Where the episode goes on, what follows is the next row.
    torch.testing.assert_close(out["next_value"][:, 0], torch.stack([value[1], after[1], value[3], value[4], after[4]]))
