"""REDQ: the minimum over a random pair, regression of all critics to one target, and an actor that moves at every 20th update."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sac_family import algorithm, batch, constant_outputs

from rl_training import REDQ
from rl_training.errors import ConfigError


def check_subset(redq: Any) -> None:
    """With member i worth i, the minimum of two of ten averages 11/3 and takes every value but 10."""
    constant_outputs(redq.target.net, [float(i) for i in range(1, 11)])
    data = batch(1)
    drawn = torch.cat([redq.pessimistic(data["obs"], data["action"]) for _ in range(4_000)])
    assert drawn.mean().item() == pytest.approx(11 / 3, abs=0.12)
    assert set(drawn.tolist()) == {float(i) for i in range(1, 10)}


def test_the_target_is_the_minimum_of_a_random_pair() -> None:
    torch.manual_seed(0)
    redq = algorithm("redq")
    check_subset(redq)

    def of_all(obs: Any, action: Any) -> Any:
        return redq.target(obs, action).min(0).values

    redq.pessimistic = of_all
    with pytest.raises(AssertionError):
        check_subset(redq)


def test_the_subset_is_the_same_for_all_rows_and_new_for_every_update() -> None:
    redq = algorithm("redq")
    constant_outputs(redq.target.net, [float(i) for i in range(1, 11)])
    data = batch(50)
    draws = [redq.pessimistic(data["obs"], data["action"]) for _ in range(20)]
    assert all(len(set(values.tolist())) == 1 for values in draws)
    assert len({values[0].item() for values in draws}) > 3


def test_some_members_alone_are_rows_of_all() -> None:
    redq = algorithm("redq", layer_norm=True)
    data = batch()
    chosen = torch.tensor([7, 2])
    every = redq.critic(data["obs"], data["action"])
    torch.testing.assert_close(redq.critic.of(data["obs"], data["action"], chosen), every[chosen])
    torch.testing.assert_close(redq.critic.first(data["obs"], data["action"]), every[0])


def test_two_of_two_critics_have_the_target_of_sac() -> None:
    sac, redq = algorithm("sac"), algorithm("redq", members=2)
    redq.load_state_dict(sac.state_dict())
    values = []
    for rule in (sac, redq):
        torch.manual_seed(1)
        values.append(rule.next_value(batch()["next_obs"]))
    assert torch.equal(*values)


def test_every_critic_regresses_to_the_one_target() -> None:
    redq = algorithm("redq", members=5)
    data = batch()
    torch.manual_seed(1)
    loss, out = redq.critic_loss(data)
    torch.manual_seed(1)
    with torch.no_grad():
        y = data["reward"] + data["discount"] * redq.next_value(data["next_obs"])
        q = redq.critic(data["obs"], data["action"])
    by_hand = sum(sum((q[i, b] - y[b]) ** 2 for b in range(16)) / 16 for i in range(5))
    assert loss.item() == pytest.approx(float(by_hand), rel=1e-5)
    torch.testing.assert_close(out["td"], (q - y).abs().mean(0))


def test_the_actor_climbs_the_mean_of_all() -> None:
    redq = algorithm("redq")
    constant_outputs(redq.critic, [float(i) for i in range(1, 11)])
    data = batch()
    torch.testing.assert_close(redq.actor_value(data["obs"], data["action"]), torch.full((16,), 5.5))


def test_the_actor_moves_at_every_20th_update_alone() -> None:
    redq = algorithm("redq")
    moved = []
    for n in range(40):
        before = {name: p.detach().clone() for name, p in redq.named_parameters()}
        redq.update(batch(seed=n), **redq.schedule(n))
        after = dict(redq.named_parameters())
        assert all(not torch.equal(before[f"{part}.body.0.weight"], after[f"{part}.body.0.weight"])
                   for part in ("critic", "target.net"))  # fmt: skip
        moved.append({part for part in ("policy.net.1.weight", "log_alpha") if not torch.equal(before[part], after[part])})
    assert [n for n, parts in enumerate(moved) if parts] == [19, 39]
    assert moved[19] == {"policy.net.1.weight", "log_alpha"}


def test_members_start_apart_and_20_updates_follow_each_step() -> None:
    agent = REDQ("Pendulum-v1", hidden=(8, 8))
    weight = agent.parts.algorithm.critic.body[0].weight
    assert len(weight) == 10 and all(not torch.equal(weight[0], other) for other in weight[1:])
    assert agent.parts.buffer.updates_per_step == 20.0 and agent.parts.random_steps == 5_000


def test_a_subset_larger_than_the_ensemble_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"subset = 3 critics cannot be drawn from algorithm.members = 2"):
        REDQ("Pendulum-v1", members=2, subset=3)
