"""The decision transformer: what each prediction may depend on, what its loss counts, and that it does as it is asked."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from rl_training.contrib import DecisionTransformer
from rl_training.data.dataset import Dataset
from rl_training.errors import ConfigError
from rl_training.runtime.acting import Actor
from rl_training.runtime.learner import Learner

K = 4


def agent(env: Any = "Pendulum-v1", **settings: Any) -> Any:
    torch.set_num_threads(1)
    return DecisionTransformer(env, **{"hidden": (16, 16), "context": K, "heads": 2, "normalize_obs": False} | settings)


def steps(rows: int = 3, discrete: bool = False) -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(0)
    action = torch.randint(2, (rows, K), generator=g) if discrete else torch.randn(rows, K, 1, generator=g).tanh()
    return {"obs": torch.randn(rows, K, 4 if discrete else 3, generator=g), "action": action,
            "to_go": torch.randn(rows, K, generator=g), "timestep": torch.arange(K).expand(rows, K) + 5,
            "mask": torch.ones(rows, K, dtype=torch.bool)}  # fmt: skip


def changed(given: dict[str, Tensor], key: str, step: int) -> dict[str, Tensor]:
    value = given[key].clone()
    value[:, step] += 1
    return given | {key: value}


@pytest.mark.parametrize("env", ["Pendulum-v1", "CartPole-v1"])
def test_a_prediction_sees_what_came_before_its_action_and_no_more(env: str) -> None:
    net, given = agent(env).parts.algorithm.policy.net, steps(discrete=env == "CartPole-v1")
    if env == "CartPole-v1":
        given["action"] = torch.zeros_like(given["action"])
    out = net(given)
    for step in range(K):
        for key in ("obs", "to_go", "action", "timestep"):
            other = net(changed(given, key, step))
            first = step + 1 if key == "action" else step  # the first that may know
            assert torch.equal(other[:, :first], out[:, :first]), f"{key} of step {step} leaks"
            for later in range(first, K):
                assert not torch.allclose(other[:, later], out[:, later], atol=1e-7), f"{key} of {step} is not seen at {later}"


def test_padding_is_not_seen() -> None:
    net, given = agent().parts.algorithm.policy.net, steps()
    given["mask"][:, :2] = False
    out = net(given)
    for key in ("obs", "to_go", "action", "timestep"):
        assert torch.equal(net(changed(given, key, 1))[:, 2:], out[:, 2:]), key
    alone = {key: value[:, 2:] for key, value in given.items()}
    torch.testing.assert_close(net(alone), out[:, 2:]), "as if there were none"


def test_times_beyond_the_table_are_its_last() -> None:
    net, given = agent(max_steps=6).parts.algorithm.policy.net, steps()
    beyond = given | {"timestep": torch.full((3, K), 900)}
    assert torch.equal(net(beyond), net(given | {"timestep": torch.full((3, K), 5)}))


@pytest.mark.parametrize("env", ["Pendulum-v1", "CartPole-v1"])
def test_the_loss_is_a_mean_over_what_is_no_padding(env: str) -> None:
    rule, given = agent(env, dropout=0.0).parts.algorithm, steps(discrete=env == "CartPole-v1")
    given["mask"][0, :3] = False
    out, total, count = rule.policy.net(given), 0.0, 0
    for row in range(3):
        for step in range(K):
            if given["mask"][row, step]:
                if env == "CartPole-v1":
                    total += F.cross_entropy(out[row, step], given["action"][row, step]).item()
                else:
                    total += (out[row, step].tanh() - given["action"][row, step]).square().mean().item()
                count += 1
    assert count == 9 and rule.loss(given)[0].item() == pytest.approx(total / count, rel=1e-5)


def test_dropout_is_for_learning_alone() -> None:
    made = agent(dropout=0.5)
    rule, given = made.parts.algorithm, steps()
    torch.manual_seed(0)
    assert not torch.equal(rule.loss(given)[0], rule.loss(given)[0])
    assert torch.equal(rule.policy.answer(given), rule.policy.answer(given))


class Bandit(gym.Env[Any, Any]):
    """One step: 1 for an action of 1, 0 for -1."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, kind: str) -> None:
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32) if kind == "continuous" else gym.spaces.Discrete(2)


def learned(kind: str, **settings: Any) -> Any:
    made = agent(lambda: Bandit(kind), dataset="bandit", offline_updates=300, learning_rate=3e-3, warmup_updates=10, **settings)
    up = np.arange(200) % 2 == 1
    ones, zeros = np.ones(200, np.bool_), np.zeros((200, 1), np.float32)
    action = np.where(up, 1.0, -1.0).astype(np.float32)[:, None] if kind == "continuous" else up.astype(np.int64)
    data = Dataset(obs=zeros, action=action, reward=up.astype(np.float32), terminated=ones, truncated=~ones, next_obs=zeros,
                   name="bandit", sha256="", source="made")  # fmt: skip
    learner, buffer = Learner(made.parts.algorithm), made.parts.offline(data)
    for batch in buffer.batches(300, learner.prepare):
        learner.update(batch)
    made.actor = Actor(made.parts.algorithm.policy)
    return made


def test_it_does_what_returned_as_much_as_is_asked_for() -> None:
    made, obs = learned("continuous"), np.zeros(1, np.float32)
    assert made.episode(1.0).act(obs) > 0.9 and made.episode(0.0).act(obs) < -0.9
    assert made.predict(obs) > 0.9, "without a wish it asks for the best that is stored"
    assert learned("continuous", target_return=0.0).predict(obs) < -0.9


def test_discrete_actions_too() -> None:
    made, obs = learned("discrete"), np.zeros(1, np.float32)
    assert (made.episode(1.0).act(obs), made.episode(0.0).act(obs)) == (1, 0)
    doubt = np.log(np.float32([[0.8, 0.2]] * 2000))
    policy, rng = made.parts.algorithm.policy, np.random.default_rng(0)
    assert policy.choose(doubt, rng, 0, explore=True).mean() == pytest.approx(0.2, abs=0.03)
    assert not policy.choose(doubt, rng, 0, explore=False).any()


def test_an_episode_asks_for_the_rest() -> None:
    made = agent(return_scale=2.0)
    made.parts.algorithm.policy.scale.fill_(2.0)
    episode = made.episode(10.0)
    for reward in (3.0, 4.0):
        episode.act(np.zeros(3, np.float32))
        episode.reward(reward)
    assert episode.history.to_go.tolist() == [1.5]
    assert episode.history.steps["to_go"][0].tolist() == [0.0, 0.0, 5.0, 3.5]


class Echo(gym.Env[Any, Any]):
    """Rewards 1 per step, for six steps; the observation counts them."""

    observation_space = gym.spaces.Box(-9.0, 9.0, (1,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        return np.full(1, self.count, np.float32), 1.0, self.count == 6, False, {}


def test_evaluating_remembers_the_episode_and_forgets_it_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    made = agent(Echo, target_return=10.0)
    policy = made.parts.algorithm.policy
    policy.target.fill_(10.0)
    seen = []
    answer = policy.answer
    monkeypatch.setattr(policy, "answer", lambda given: seen.append(given) or answer(given))
    assert made.evaluate(num_episodes=2).returns == [6.0, 6.0]
    steps = [{key: value[0].squeeze(-1).tolist() for key, value in given.items()} for given in seen]
    for n, given in enumerate(steps[:6]):
        known = min(n + 1, K)
        assert given["mask"] == [False] * (K - known) + [True] * known
        assert given["obs"][K - known :] == given["timestep"][K - known :] == list(range(n - known + 1, n + 1))
        assert given["to_go"][-1] == 10.0 - n


def test_what_the_data_return_is_the_scale_and_the_wish() -> None:
    rows = np.zeros((4, 3), np.float32)
    data = Dataset(obs=rows, action=rows[:, :1], reward=np.float32([-1, -7, -2, -1]), terminated=np.array([False, True] * 2),
                   truncated=np.zeros(4, np.bool_), next_obs=rows, name="", sha256="", source="")  # fmt: skip
    for settings, scale, target in (({}, 8.0, -3.0), ({"return_scale": 2.0, "target_return": 5.0}, 2.0, 5.0)):
        made = agent(**settings)
        buffer = made.parts.offline(data)
        policy = made.parts.algorithm.policy
        assert (policy.scale.item(), policy.target.item()) == (scale, target)
        assert buffer.columns["to_go"][0] == -8.0 / scale


@pytest.mark.parametrize(
    ("settings", "named"), [({"hidden": ()}, "hidden"), ({"hidden": (8, 16)}, "hidden"), ({"heads": 3}, "heads")]
)
def test_blocks_have_one_width_that_heads_divide(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        agent(**settings)
