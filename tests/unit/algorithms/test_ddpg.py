"""DDPG: TD3's rule with one critic, no delay and no noise on target actions, and none of the settings that it would ignore."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from one_state import box, trained
from sac_family import algorithm, batch, changed_parts, constant_outputs

from rl_training import DDPG
from rl_training.algorithms.td3 import TD3Config
from rl_training.errors import ConfigError


def check_target(change: Callable[[Any], None]) -> None:
    """y = r + discount * Q'(s', mu'(s')), with targets that are far from what they follow."""
    torch.manual_seed(0)
    ddpg = algorithm("ddpg")
    ddpg.critic_target.flat.mul_(3.0)
    ddpg.actor_target.flat.mul_(-3.0)
    constant_outputs(ddpg.critic, [0.0])
    data = batch()
    with torch.no_grad():
        next_q = ddpg.critic_target(data["next_obs"], ddpg.actor_target(data["next_obs"]))
    assert next_q.shape == (1, 16), "one critic"
    change(ddpg)
    torch.testing.assert_close(ddpg.critic_loss(data)[1]["td"], (data["reward"] + data["discount"] * next_q[0]).abs())


def test_the_target_is_the_value_of_the_target_actors_own_action() -> None:
    check_target(lambda ddpg: None)

    def smoothed(ddpg: Any) -> None:
        ddpg.config = TD3Config()

    def action_of_the_actor_itself(ddpg: Any) -> None:
        ddpg.actor_target = ddpg.policy.net

    def value_of_the_critic_itself(ddpg: Any) -> None:
        ddpg.critic_target = ddpg.critic

    for broken in (smoothed, action_of_the_actor_itself, value_of_the_critic_itself):
        with pytest.raises(AssertionError):
            check_target(broken)


def test_nothing_follows_the_end() -> None:
    ddpg = algorithm("ddpg")
    constant_outputs(ddpg.critic, [0.0])
    constant_outputs(ddpg.critic_target.net, [3.0])
    data = batch(2) | {"reward": torch.ones(2), "discount": torch.tensor([0.99, 0.0])}
    loss, out = ddpg.critic_loss(data)
    assert out["td"].tolist() == pytest.approx([3.97, 1.0])
    assert loss.item() == pytest.approx((3.97**2 + 1.0) / 2)


def test_a_task_of_one_step_has_its_reward_as_value() -> None:
    torch.manual_seed(0)
    ddpg = algorithm("ddpg", learning_rate=0.01)
    data = batch() | {"discount": torch.zeros(16)}
    for _ in range(1500):
        ddpg.critic_optim.minimize("critic_loss", data)
    with torch.no_grad():
        q = ddpg.critic(data["obs"], data["action"])[0]
    assert (q - data["reward"]).abs().max().item() < 0.05


def test_actor_and_targets_move_at_every_update() -> None:
    ddpg = algorithm("ddpg")
    for n in range(3):
        moved = changed_parts(ddpg, partial(ddpg.update, batch(seed=n), **ddpg.schedule(n)))
        assert moved == {"critic", "policy", "critic_target", "actor_target"}, n


def test_each_loss_moves_its_own_part_alone() -> None:
    for loss, part in (("critic", "critic"), ("actor", "policy")):
        ddpg = algorithm("ddpg")
        update = partial(getattr(ddpg, f"{loss}_optim").minimize, f"{loss}_loss", batch())
        assert changed_parts(ddpg, update) == {part}


@pytest.mark.parametrize(("ends", "value"), [(False, 10.0), (True, 1 / (1 - 0.9 * 0.9))])
def test_a_time_limit_is_no_end(ends: bool, value: float, tmp_path: Path) -> None:
    ddpg = trained("ddpg", box(), ends, tmp_path)
    here = torch.ones(1, 1)
    assert ddpg.critic(here, ddpg.policy.net(here)).item() == pytest.approx(value, abs=0.3)


def test_exploration_adds_clipped_noise_and_evaluation_none() -> None:
    agent = DDPG("Pendulum-v1", hidden=(8, 8), exploration_noise=0.3)
    outputs = np.full((20_000, 1), 0.9, np.float32)
    acted = agent.parts.algorithm.policy.choose(outputs, np.random.default_rng(0), 0, explore=True)
    assert acted.max() == 1.0 and acted[acted < 1.0].min() < 0.0
    below = acted[acted < 0.9] - 0.9
    assert np.sqrt(np.square(below).mean()) == pytest.approx(0.3, rel=0.03)
    assert (agent.parts.algorithm.policy.choose(outputs, np.random.default_rng(0), 0, explore=False) == outputs).all()


@pytest.mark.parametrize("setting", ["policy_delay", "target_noise", "target_noise_clip"])
def test_what_only_td3_has_is_refused(setting: str) -> None:
    with pytest.raises(ConfigError, match=f"'{setting}' belongs to .*td3.*; ddpg has no such setting"):
        DDPG("Pendulum-v1", **{setting: 2})
