"""A2C: advantages as they are, the plain policy gradient, and one step of RMSprop per rollout."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from rollout_family import ACTIONS, bandit, rollout, rule, weights

from rl_training import A2C
from rl_training.specs import ActionSpec
from rl_training.testing import OneState

TWO = ActionSpec("discrete", (2,))
QUIET: dict[str, Any] = {"progress": "quiet", "tensorboard": False, "num_episodes": 0, "checkpoint_every": 0}


def row(**changes: Any) -> dict[str, torch.Tensor]:
    """One step in the state of zeros: action 0, advantage 1."""
    values = {"obs": [[0.0] * 3], "action": [0], "advantage": [1.0], "return": [0.0]} | changes
    return {key: torch.tensor(value) for key, value in values.items()}


@pytest.mark.parametrize(("ended", "advantage"), [("", 2.0 + 0.9 * 5.0), ("truncated", 2.0 + 0.9 * 5.0), ("terminated", 2.0)])
def test_the_advantage_of_a_single_step(ended: str, advantage: float) -> None:
    agent = A2C("CartPole-v1", num_envs=1, num_steps=1, gamma=0.9, hidden=())
    critic, buffer = agent.parts.algorithm.critic, agent.parts.buffer
    critic.body[-1].weight.data.copy_(torch.tensor([[1.0, 0.0, 0.0, 0.0]]))  # the value is the first number seen
    flags = {name: np.array([[name == ended]]) for name in ("terminated", "truncated")}
    obs, next_obs = np.float32([[[3.0, 1.0, 1.0, 1.0]]]), np.float32([[[5.0, 1.0, 1.0, 1.0]]])
    buffer.add({"obs": obs, "next_obs": next_obs, "action": np.array([[1]]), "outputs": np.zeros((1, 1, 2), np.float32),
                "reward": np.float32([[2.0]]), **flags})  # fmt: skip
    (batch,) = buffer.batches(1, agent.parts.algorithm.prepare)
    assert batch["advantage"].item() == pytest.approx(advantage - 3.0)
    assert batch["return"].item() == pytest.approx(advantage)


def test_five_steps_are_bootstrapped_by_the_value_after_them() -> None:
    agent = A2C("CartPole-v1", num_envs=1, gamma=0.5, hidden=())
    agent.parts.algorithm.critic.body[-1].bias.data.fill_(8.0)
    agent.parts.algorithm.critic.body[-1].weight.data.zero_()
    obs, no = np.zeros((5, 1, 4), np.float32), np.zeros((5, 1), np.bool_)
    agent.parts.buffer.add({"obs": obs, "next_obs": obs, "action": np.zeros((5, 1), np.int64), "terminated": no,
                            "truncated": no, "outputs": np.zeros((5, 1, 2), np.float32),
                            "reward": np.float32([[1], [2], [3], [4], [5]])})  # fmt: skip
    (batch,) = agent.parts.buffer.batches(5, agent.parts.algorithm.prepare)
    # From the end: 5 + 8/2 = 9, 4 + 9/2, 3 + 8.5/2, 2 + 7.25/2, 1 + 5.625/2.
    assert sorted(batch["return"].tolist()) == pytest.approx([3.8125, 5.625, 7.25, 8.5, 9.0])
    torch.testing.assert_close(batch["advantage"], batch["return"] - 8.0)


def test_the_gradient_of_a_two_armed_bandit() -> None:
    a2c = bandit("a2c", TWO, vf_coef=0.0)
    loss, _ = a2c.loss(row())
    (gradient,) = torch.autograd.grad(loss, a2c.policy.net[-1].bias)
    assert gradient.tolist() == pytest.approx([-0.5, 0.5])


def test_the_whole_loss() -> None:
    a2c = bandit("a2c", TWO, ent_coef=0.1)
    a2c.policy.net[-1].bias.data.copy_(torch.tensor([0.0, np.log(3.0)]))
    a2c.critic.body[-1].bias.data.fill_(1.0)
    batch = row(obs=[[0.0] * 3] * 2, action=[0, 1], advantage=[4.0, 2.0], **{"return": [5.0, 2.0]})
    loss, out = a2c.loss(batch)
    policy_loss = -(4.0 * np.log(0.25) + 2.0 * np.log(0.75)) / 2
    entropy = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    assert out["policy_loss"].item() == pytest.approx(policy_loss, rel=1e-6), "advantages are not standardized"
    assert out["value_loss"].item() == pytest.approx((16.0 + 1.0) / 2, rel=1e-6), "the mean squared error is not halved"
    assert out["entropy_loss"].item() == pytest.approx(-entropy, rel=1e-6)
    assert loss.item() == pytest.approx(policy_loss + 0.5 * 8.5 - 0.1 * entropy, rel=1e-6)


def test_advantages_teach_the_critic_nothing() -> None:
    a2c = rule("a2c", ACTIONS["discrete"], vf_coef=0.0)
    before = weights(a2c.critic), weights(a2c.policy)
    a2c.update(rollout(a2c))
    assert weights(a2c.critic) == before[0] and weights(a2c.policy) != before[1]


@pytest.mark.parametrize("kind", ACTIONS)
def test_updates_equal_those_of_another_implementation(kind: str) -> None:
    a2c = rule("a2c", ACTIONS[kind], learning_rate=0.05, ent_coef=0.02)
    twin = copy.deepcopy({"policy": a2c.policy, "critic": a2c.critic})
    parameters = [p for part in twin.values() for p in part.parameters()]
    squares = [torch.ones_like(p) for p in parameters]
    for seed in range(3):
        batch = rollout(a2c, seed=seed)
        outputs = twin["policy"].net(batch["obs"])
        if kind == "continuous":
            parts = [torch.distributions.Normal(outputs, twin["policy"].log_std.exp())]
            log_prob, entropy = parts[0].log_prob(batch["action"]).sum(-1), parts[0].entropy().sum(-1)
        else:
            parts = [torch.distributions.Categorical(logits=x) for x in outputs.split(ACTIONS[kind].nvec, -1)]
            actions = batch["action"].reshape(64, -1).unbind(-1)
            log_prob = sum(part.log_prob(action) for part, action in zip(parts, actions))
            entropy = sum(part.entropy() for part in parts)
        loss = -(log_prob * batch["advantage"]).sum() / 64
        loss = loss + 0.5 * torch.nn.functional.mse_loss(twin["critic"](batch["obs"]), batch["return"])
        loss = loss - 0.02 * entropy.mean()
        for p, gradient in zip(parameters, torch.autograd.grad(loss, parameters)):
            p.grad = gradient
        torch.nn.utils.clip_grad_norm_(parameters, 0.5)
        for p, square in zip(parameters, squares):
            square.mul_(0.99).add_(0.01 * p.grad**2)
            p.data -= 0.05 * p.grad / torch.sqrt(square + 1e-5)
        out = a2c.update(batch)
        assert out["loss"].item() == pytest.approx(loss.item(), rel=1e-4)
    mine = [p for part in (a2c.policy, a2c.critic) for p in part.parameters()]
    for p, q in zip(mine, parameters, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-6)


def test_each_rollout_is_learned_from_once(tmp_path: Any) -> None:
    agent = A2C("CartPole-v1", total_steps=8 * 5 * 7, output_dir=str(tmp_path), **QUIET).learn()
    assert agent.result is not None and agent.result.metrics["updates"] == 7


def test_the_step_size_falls_with_progress_only_when_asked() -> None:
    for asked, left in ((False, 7e-4), (True, 7e-4 / 4)):
        a2c = rule("a2c", TWO, anneal_lr=asked)
        a2c.anneal(0.75)
        assert a2c.optim.lr.item() == pytest.approx(left)


def test_endless_reward_under_a_time_limit_is_worth_ten(tmp_path: Any) -> None:
    """Reward 1 for ever, cut every 10 steps, gamma .9; with truncation taken for an end it would be worth 4.14."""
    settings = QUIET | {"gamma": 0.9, "learning_rate": 0.05, "anneal_lr": True, "max_grad_norm": 100.0, "hidden": (4,)}
    agent = A2C(lambda: OneState(count=False), total_steps=16_000, output_dir=str(tmp_path), **settings).learn()
    assert agent.parts.algorithm.critic(torch.zeros(1, 1)).item() == pytest.approx(10.0, abs=0.01)
