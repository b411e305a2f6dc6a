"""SAC against closed forms: the density of its actions, the soft target, the temperature and the entropy it settles at."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from sac_family import algorithm, batch, constant_outputs, fixed_log_prob
from torch import Tensor
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution

from rl_training.models import distributions as dist


def uncorrected(u: Tensor, log_prob: Tensor) -> Tensor:
    """The classic bug: the density of u given out as that of tanh(u)."""
    return log_prob


def check_density(policy: Any) -> None:
    obs = batch(200)["obs"]
    mean, log_std = policy.net(obs).chunk(2, -1)
    action, log_prob = policy.sample(obs)
    reference = TransformedDistribution(Independent(Normal(mean.double(), log_std.double().exp()), 1), TanhTransform())
    expected = reference.log_prob(action.double().clamp(-1 + 1e-7, 1 - 1e-7))
    near = action.abs().squeeze(-1) < 0.995  # beyond, the action has lost the digits that the reference needs
    assert near.sum() > 150
    torch.testing.assert_close(log_prob.double()[near], expected[near], atol=2e-3, rtol=0)


def test_the_density_is_that_of_a_tanh_gaussian(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    policy = algorithm("sac").policy
    check_density(policy)
    monkeypatch.setattr(dist, "squash_log_prob", uncorrected)
    with pytest.raises(AssertionError):
        check_density(policy)


def settled(steps: int = 600) -> tuple[float, float]:
    """Deviation before tanh and mean |action| after training the actor alone on critics that say 0, at temperature 1."""
    torch.manual_seed(0)
    sac = algorithm("sac", learning_rate=0.01)
    constant_outputs(sac.critic, [0.0, 0.0])
    data = {"obs": torch.ones(256, 3)}
    for _ in range(steps):
        sac.actor_optim.minimize("actor_loss", data)
    sac.actor_optim.lr.fill_(1e-3)
    for _ in range(200):
        sac.actor_optim.minimize("actor_loss", data)
    deviation = sac.policy.net(data["obs"])[0, 1].exp().item()
    return deviation, sac.policy.sample(torch.ones(20_000, 3))[0].abs().mean().item()


def check_settled() -> None:
    deviation, size = settled()
    assert deviation == pytest.approx(0.8744, abs=0.06), deviation
    assert size == pytest.approx(0.5152, abs=0.03), size


def test_the_actor_settles_at_the_largest_entropy_inside_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    check_settled()
    monkeypatch.setattr(dist, "squash_log_prob", uncorrected)
    with pytest.raises(AssertionError):
        check_settled()


def targets(rule: Any, data: dict[str, Tensor]) -> Tensor:
    """The targets that the critic loss regresses to: with critics at 0, the loss's error is -y."""
    constant_outputs(rule.critic, [0.0] * rule.critic.members)
    return rule.critic_loss(data)[1]["td"]


def check_target(change: Callable[[Any], None]) -> None:
    sac = algorithm("sac", alpha=0.5)
    change(sac)
    constant_outputs(sac.target.net, [2.0, 3.0])
    data = batch(2) | {"reward": torch.ones(2)}
    with fixed_log_prob(sac.policy, -1.0):
        assert targets(sac, data).tolist() == pytest.approx([3.25, 1.0])


def test_the_soft_target_by_hand() -> None:
    """r = 1, gamma = 0.9, min Q = 2, alpha = 0.5, log pi = -1; nothing follows a terminal step, entropy neither."""
    check_target(lambda sac: None)

    def entropy_after_the_end(sac: Any) -> None:
        original = sac.critic_loss
        sac.critic_loss = lambda data: original(data | {"reward": data["reward"] + (data["discount"] == 0) * 0.5})

    def mean_of_critics(sac: Any) -> None:
        sac.next_value = lambda obs: sac.target(obs, sac.policy.sample(obs)[0]).mean(0) + 0.5

    for broken in (entropy_after_the_end, mean_of_critics):
        with pytest.raises(AssertionError):
            check_target(broken)


@pytest.mark.parametrize(("entropy", "gradient"), [(2.0, 3.0), (-3.0, -2.0)])
def test_entropy_above_the_target_lowers_the_temperature(entropy: float, gradient: float) -> None:
    sac = algorithm("sac")  # target entropy -1
    loss, _ = sac.alpha_loss(torch.tensor(entropy))
    assert torch.autograd.grad(loss, sac.log_alpha)[0].item() == pytest.approx(gradient)
    sac.alpha_optim.minimize("alpha_loss", torch.tensor(entropy))
    assert math.copysign(1.0, sac.log_alpha.item()) == -math.copysign(1.0, gradient)


def test_each_loss_moves_its_own_part_alone() -> None:
    for loss, part in (("critic", "critic."), ("actor", "policy.net.")):
        sac = algorithm("sac")
        before = {name: p.detach().clone() for name, p in sac.named_parameters()}
        getattr(sac, f"{loss}_optim").minimize(f"{loss}_loss", batch())
        moved = {name for name, p in sac.named_parameters() if not torch.equal(p, before[name])}
        assert moved == {name for name in before if name.startswith(part)}, loss
