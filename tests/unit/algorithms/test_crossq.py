"""CrossQ: one pass over taken and next actions, against an implementation of its own; no target network anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from sac_family import algorithm, batch
from torch import Tensor

from rl_training import CrossQ
from rl_training.errors import ConfigError
from rl_training.models.batch_renorm import BatchRenorm


def normalized(x: Tensor, layer: Any, member: int) -> Tensor:
    mean, var = x.mean(0), x.var(0, unbiased=False)
    return (x - mean) / torch.sqrt(var + 1e-3) * layer.weight[member, 0] + layer.bias[member, 0]


def by_hand(crossq: Any, data: dict[str, Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Loss and gradients of the critics, one member and one layer after the other."""
    with torch.no_grad():
        next_action, log_prob = crossq.policy.sample(data["next_obs"])
    rows = torch.cat([torch.cat([data["obs"], data["action"]], 1), torch.cat([data["next_obs"], next_action], 1)], 0)
    count = len(data["obs"])
    values = []
    for member in range(2):
        x = rows
        for layer in crossq.critic.body:
            if isinstance(layer, BatchRenorm):
                x = normalized(x, layer, member)
            elif hasattr(layer, "weight"):
                x = x @ layer.weight[member] + layer.bias[member]
            else:
                x = torch.relu(x)
        values.append(x[:, 0])
    smaller = torch.minimum(values[0][count:], values[1][count:]).detach()
    y = data["reward"] + data["discount"] * (smaller - crossq.log_alpha.exp().detach() * log_prob)
    loss = ((values[0][:count] - y) ** 2).mean() + ((values[1][:count] - y) ** 2).mean()
    return loss, list(torch.autograd.grad(loss, list(crossq.critic.parameters())))


def check_joint(change: Callable[[Any], None]) -> None:
    torch.manual_seed(0)
    crossq = algorithm("crossq")
    data = batch(32)
    for n in range(3):  # statistics away from where they start
        crossq.update(batch(32, seed=n), actor=True)
    change(crossq)
    torch.manual_seed(1)
    loss, _ = crossq.critic_loss(data)
    gradients = torch.autograd.grad(loss, list(crossq.critic.parameters()))
    torch.manual_seed(1)
    expected, wanted = by_hand(crossq, data)
    torch.testing.assert_close(loss, expected)
    for found, gradient in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(found, gradient, atol=1e-5, rtol=1e-4)


def two_passes(crossq: Any) -> None:
    """The mistake that the method exists to avoid: taken and next actions normalized by themselves."""
    joint = crossq.critic.joint

    def separate(obs: Tensor, action: Tensor, next_obs: Tensor, next_action: Tensor) -> Any:
        q, _, statistics = joint(obs, action, obs, action)
        next_q, _, _ = joint(next_obs, next_action, next_obs, next_action)
        return q, next_q, statistics

    crossq.critic.joint = separate


def frozen_statistics(crossq: Any) -> None:
    def frozen(obs: Tensor, action: Tensor, next_obs: Tensor, next_action: Tensor) -> Any:
        return crossq.critic(obs, action), crossq.critic(next_obs, next_action), []

    crossq.critic.joint = frozen


def no_gradient_through_the_next_half(crossq: Any) -> None:
    """The rows of (s', a') detached from the statistics."""
    original = BatchRenorm.in_training

    def cut(layer: Any, x: Tensor) -> Any:
        half = x.shape[-2] // 2
        return original(layer, torch.cat([x[..., :half, :], x[..., half:, :].detach()], -2))

    for layer in crossq.critic.body:
        if isinstance(layer, BatchRenorm):
            layer.in_training = lambda x, layer=layer: cut(layer, x)


def target_with_gradient(crossq: Any) -> None:
    """The value of (s', a') is learned towards that of (s, a) too."""
    joint = crossq.critic.joint

    def attached(*args: Tensor) -> Any:
        q, next_q, statistics = joint(*args)
        return q - 0.9 * (next_q - next_q.detach()), next_q, statistics

    crossq.critic.joint = attached


def test_the_joint_pass_equals_an_independent_implementation() -> None:
    check_joint(lambda crossq: None)


@pytest.mark.parametrize("broken", [two_passes, frozen_statistics, no_gradient_through_the_next_half, target_with_gradient])
def test_the_check_sees_what_goes_wrong(broken: Callable[[Any], None]) -> None:
    with pytest.raises(AssertionError):
        check_joint(broken)


def test_one_batch_of_four_is_not_two_of_two() -> None:
    layer = BatchRenorm(1, eps=0.0)
    y, _ = layer.in_training(torch.tensor([[0.0], [2.0], [4.0], [6.0]]))
    assert y[:, 0].tolist() == pytest.approx([-1.341641, -0.447214, 0.447214, 1.341641])


def test_running_statistics_cover_both_halves_and_serve_the_actor() -> None:
    crossq = algorithm("crossq")
    data = batch() | {"next_obs": batch()["obs"] + 10.0}
    crossq.update(data, actor=False)
    both = torch.cat([data["obs"], data["next_obs"]]).mean(0)
    torch.testing.assert_close(crossq.critic.body[0].mean[0, 0, :3], 0.01 * both)
    assert crossq.critic.body[0].updates == 1 and crossq.policy.net[1].updates == 0
    q = crossq.critic(data["obs"], data["action"])
    torch.testing.assert_close(crossq.critic(data["obs"][:1], data["action"][:1]), q[:, :1])
    before = [layer.mean.clone() for layer in crossq.critic.body if isinstance(layer, BatchRenorm)]
    crossq.actor_optim.minimize("actor_loss", data)
    after = [layer.mean for layer in crossq.critic.body if isinstance(layer, BatchRenorm)]
    assert all(torch.equal(a, b) for a, b in zip(before, after))
    crossq.update(data, actor=True)
    assert crossq.policy.net[1].updates == 1


def test_there_is_no_target_network_and_the_actor_is_delayed() -> None:
    crossq = algorithm("crossq")
    assert not [name for name in crossq.state_dict() if "target" in name]
    assert [crossq.schedule(n)["actor"] for n in range(6)] == [False, False, True, False, False, True]
    assert crossq.critic_optim.betas == (0.5, 0.999) == crossq.actor_optim.betas


def test_the_first_adam_moments_follow_beta1() -> None:
    crossq = algorithm("crossq")
    crossq.critic_optim.step(torch.ones_like(crossq.critic_optim.flat))
    assert crossq.critic_optim.exp_avg[0].item() == pytest.approx(0.5)


def test_the_critics_may_be_wider_than_the_actor() -> None:
    crossq = algorithm("crossq", critic_hidden=(32,))
    widths = [layer.weight.shape[-1] for layer in crossq.critic.body if type(layer).__name__ == "EnsembleLinear"]
    assert widths == [32, 1] and crossq.policy.net[2].out_features == 8


@pytest.mark.parametrize("setting", [{"layer_norm": True}, {"block": "residual"}])
def test_other_normalizations_are_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"crossq makes no use of model.{next(iter(setting))}"):
        CrossQ("Pendulum-v1", **setting)
