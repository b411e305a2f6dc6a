"""AWR: weights, bounds and value units by hand, whose turn it is, and what is not learned."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from sac_family import algorithm, batch, changed_parts

from rl_training import AWR
from rl_training.errors import ConfigError


def labels(advantage: list[float]) -> dict[str, Any]:
    return batch(len(advantage)) | {"advantage": torch.tensor(advantage), "return": torch.zeros(len(advantage))}


def give(awr: Any, mean: float) -> None:
    """Let the mean action be this everywhere."""
    awr.policy.net[-1].weight.data.zero_()
    awr.policy.net[-1].bias.data.fill_(mean)


@pytest.mark.parametrize(
    ("settings", "weights"),
    [
        ({}, [1.0, 0.293835, 3.403272]),
        ({"temperature": 0.3}, [1.0, math.exp(-1.224737 / 0.3), 20.0]),  # e^4.08 is 59
        ({"max_weight": 2.0}, [1.0, 0.293835, 2.0]),
    ],
)
def test_the_loss_weighs_log_probabilities(settings: dict[str, float], weights: list[float]) -> None:
    awr, data = algorithm("awr", **settings), labels([0.0, -1.224737, 1.224737])
    give(awr, 0.5)
    loss, out = awr.actor_loss(data)
    assert out["actor_weight"].item() == pytest.approx(sum(weights) / 3, abs=1e-5)
    log_prob = torch.distributions.Normal(0.5, 0.4).log_prob(data["action"])[:, 0]
    assert loss.item() == pytest.approx(-(torch.tensor(weights) * log_prob).mean().item(), rel=1e-5)


def test_mean_actions_beyond_the_bounds_cost() -> None:
    """Half the squared excess, ten times, beside the cloning term, which has no weight here."""
    awr, data = algorithm("awr"), labels([-100.0])
    for mean, cost in ((1.3, 0.5 * 0.3**2 * 10), (-1.5, 0.5 * 0.5**2 * 10), (0.9, 0.0)):
        give(awr, mean)
        assert awr.actor_loss(data)[0].item() == pytest.approx(cost, abs=1e-5)
    awr = algorithm("awr", bound_coef=4.0)
    give(awr, 2.0)
    assert awr.actor_loss(data)[0].item() == pytest.approx(2.0, abs=1e-5)


def test_values_are_in_units_of_the_longest_sum_of_rewards_of_one() -> None:
    awr = algorithm("awr", gamma=0.9)
    awr.critic.body[-1].weight.data.zero_()
    awr.critic.body[-1].bias.data.fill_(0.5)
    data = labels([0.0, 0.0]) | {"return": torch.tensor([5.0, 8.0])}
    assert awr.critic(data["obs"]).tolist() == pytest.approx([5.0, 5.0])
    assert awr.critic_loss(data)[0].item() == pytest.approx(0.5 * 0.3**2 / 2, abs=1e-6)


def test_value_and_policy_take_turns_and_the_deviation_stays() -> None:
    awr = algorithm("awr", critic_steps=2, actor_steps=3)
    moved = []
    for n in range(7):
        data = batch(seed=n) | {"advantage": torch.randn(16), "return": torch.randn(16)}
        moved.append(changed_parts(awr, lambda data=data, n=n: awr.update(data, **awr.schedule(n))))
    assert moved == [{"critic"}] * 2 + [{"policy"}] * 3 + [{"critic"}] * 2
    assert awr.policy.log_std.exp().item() == pytest.approx(0.4)


def test_labels_are_made_when_turns_change() -> None:
    """The schedule of the rule and the parts of its buffer are one cycle, and actors see standardized advantages."""
    from rl_training.data.dataset import Dataset

    agent = AWR("Pendulum-v1", hidden=(8, 8), critic_steps=2, actor_steps=3, batch_size=8, dataset="made", offline_updates=10)
    assert agent.parts.offline is not None and agent.parts.buffer is None
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(31, 3)).astype(np.float32)
    no = np.zeros(30, np.bool_)
    data = Dataset(
        obs=obs[:-1], action=rng.uniform(-1, 1, (30, 1)).astype(np.float32), reward=rng.normal(5, 2, 30).astype(np.float32),
        terminated=no, truncated=no, next_obs=obs[1:], name="made", sha256="", source="test",
    )  # fmt: skip
    buffer, rule = agent.parts.offline(data), agent.parts.algorithm
    made: list[int] = []
    turns: list[Any] = []
    for n in range(10):
        for given in buffer.batches(1, lambda rollout, n=n: (made.append(n), rule.prepare(rollout))[1]):
            turns.append(rule.schedule(n)["actor"])
            rule.update(given, **rule.schedule(n))
    assert made == [n for n in range(10) if n == 0 or turns[n] != turns[n - 1]] == [0, 2, 5, 7]
    advantage = buffer.labels["advantage"]
    assert abs(advantage.mean()) < 1e-5 and advantage.std() == pytest.approx(1.0, abs=1e-4)


def test_settings_of_continuous_actions_are_refused_for_discrete_ones() -> None:
    for name in ("action_std", "bound_coef"):
        with pytest.raises(ConfigError, match=rf"algorithm.{name} = 0.5 is for continuous actions"):
            AWR("CartPole-v1", **{name: 0.5})


def test_discrete_actions_have_no_bounds() -> None:
    torch.set_num_threads(1)
    awr = AWR("CartPole-v1", hidden=(8, 8)).parts.algorithm
    give(awr, 5.0)
    data = {"obs": torch.zeros(2, 4), "action": torch.tensor([0, 1]), "advantage": torch.zeros(2)}
    assert awr.actor_loss(data)[0].item() == pytest.approx(math.log(2.0), abs=1e-6)
