"""TD3 and TD3+BC: the smoothed target by hand, what each update may change, and the actor's objectives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from one_state import box, trained
from sac_family import algorithm, batch, changed_parts, constant_outputs
from torch import Tensor, nn

from rl_training.algorithms.terms import BehaviorCloning


class Recorder(nn.Module):
    """Remembers the actions it is asked about, and values them all at zero."""

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        self.action = action
        return torch.zeros(2, len(action))


def check_target(change: Callable[[Any], None]) -> None:
    td3 = algorithm("td3")
    change(td3)
    constant_outputs(td3.critic, [0.0, 0.0])
    constant_outputs(td3.critic_target.net, [3.0, 5.0])
    data = batch(2) | {"reward": torch.ones(2), "discount": torch.tensor([0.99, 0.0])}
    assert td3.critic_loss(data)[1]["td"].tolist() == pytest.approx([3.97, 1.0])


def test_the_target_takes_the_lesser_critic() -> None:
    """r = 1, gamma = 0.99, target critics that say 3 and 5: y = 3.97, and 1 where nothing follows."""
    check_target(lambda td3: None)

    def mean_of_critics(td3: Any) -> None:
        target = td3.critic_target.net
        td3.critic_target.forward = lambda obs, action: target(obs, action).mean(0, keepdim=True)

    with pytest.raises(AssertionError):
        check_target(mean_of_critics)


def test_the_loss_is_the_sum_of_both_weighted_errors_and_priorities_do_not_cancel() -> None:
    td3 = algorithm("td3")
    constant_outputs(td3.critic, [1.0, -2.0])
    constant_outputs(td3.critic_target.net, [0.0, 0.0])
    data = batch(4) | {"reward": torch.zeros(4), "weight": torch.tensor([1.0, 0.5, 0.0, 0.25])}
    loss, out = td3.critic_loss(data)
    assert loss.item() == pytest.approx((1.0 + 4.0) * 1.75 / 4)
    assert out["td"].tolist() == pytest.approx([1.5] * 4), "errors of +1 and -2 are errors of 1 and 2"


def asked_about(output: float, rows: int = 500, **settings: Any) -> Tensor:
    """The actions that the target critics value when the target actor's last layer gives `output` before its tanh."""
    td3 = algorithm("td3", **settings)
    td3.critic_target = Recorder()
    last = td3.actor_target.net[-2]
    last.weight.data.zero_()
    last.bias.data.fill_(output)
    td3.critic_loss(batch(rows))
    return td3.critic_target.action


def test_target_noise_is_clipped_before_and_after_it_is_added() -> None:
    torch.manual_seed(0)
    assert asked_about(0.0, target_noise=10.0).abs().max().item() == 0.5
    beside_the_bound = asked_about(10.0, target_noise=10.0)
    assert beside_the_bound.max().item() == 1.0 and beside_the_bound.min().item() == pytest.approx(0.5)
    noise = asked_about(0.0, rows=5_000)
    assert noise[noise.abs() < 0.5].std().item() == pytest.approx(0.2 * 0.955, rel=0.06), "deviation 0.2, without its tails"
    assert len(noise.unique()) > 4_000, "every row has noise of its own"


def test_the_actor_follows_the_first_critic() -> None:
    td3 = algorithm("td3")
    constant_outputs(td3.critic, [3.0, -2.0])
    assert td3.actor_loss(batch())[0].item() == pytest.approx(-3.0)


def test_with_delay_two_the_first_update_leaves_actor_and_all_targets_alone() -> None:
    td3 = algorithm("td3", policy_delay=2)
    moved = [changed_parts(td3, partial(td3.update, batch(seed=n), **td3.schedule(n))) for n in range(4)]
    assert moved == [{"critic"}, {"critic", "policy", "critic_target", "actor_target"}] * 2


def test_each_loss_moves_its_own_part_alone() -> None:
    for loss, part in (("critic", "critic"), ("actor", "policy")):
        td3 = algorithm("td3")
        update = partial(getattr(td3, f"{loss}_optim").minimize, f"{loss}_loss", batch())
        assert changed_parts(td3, update) == {part}


@pytest.mark.parametrize("part", ["critic_target", "actor_target"])
def test_targets_follow_by_tau(part: str) -> None:
    """A source held at 1 is approached from 0 as 1 - (1 - tau)^k: half-way, 0.5018, after 139 moves of 0.005."""
    td3 = algorithm("td3", tau=0.005)
    target = getattr(td3, part)
    target._source[0].flat.fill_(1.0)
    target.flat.zero_()
    for _ in range(139):
        target.update()
    torch.testing.assert_close(target.flat, torch.full_like(target.flat, 0.5018), atol=1e-4, rtol=0)


@pytest.mark.parametrize(("ends", "value"), [(False, 10.0), (True, 1 / (1 - 0.9 * 0.9))])
def test_a_time_limit_is_no_end(ends: bool, value: float, tmp_path: Path) -> None:
    td3 = trained("td3", box(), ends, tmp_path)
    here = torch.ones(1, 1)
    assert td3.critic(here, td3.policy.net(here)).flatten().tolist() == pytest.approx([value] * 2, abs=0.3)


@pytest.mark.parametrize(
    ("action", "data", "loss"),
    [
        ([[0.5], [0.0]], [[0.0], [1.0]], -0.208333),
        ([[0.5, 0.0], [0.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]], -0.270833),  # +.291667 if dimensions were summed
    ],
)
def test_the_actor_objective_of_td3_bc(action: list[list[float]], data: list[list[float]], loss: float) -> None:
    q = torch.tensor([-2.0, 4.0], requires_grad=True)
    value = BehaviorCloning(2.5)(q, torch.tensor(action), torch.tensor(data))
    assert value.item() == pytest.approx(loss, abs=1e-6)
    (gradient,) = torch.autograd.grad(value, q)
    assert gradient.tolist() == pytest.approx([-0.833333 / 2] * 2, abs=1e-6), "lambda is a constant to the gradient"


def test_td3_bc_clones_the_action_of_the_batch() -> None:
    td3 = algorithm("td3", learning_rate=1e-2)
    td3.cloning = BehaviorCloning(0.0)
    data = batch(64) | {"action": torch.full((64, 1), 0.7)}
    for _ in range(300):
        td3.actor_optim.minimize("actor_loss", data)
    with torch.no_grad():
        assert (td3.policy.net(data["obs"]) - 0.7).abs().max().item() < 0.05
