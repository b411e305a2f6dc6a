"""Rewards of goals: the environment's own functions, for batches or row by row, and what is refused."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rl_training.envs.goal_reward import GoalReward
from rl_training.envs.goal_tasks import BitFlip, PointReach
from rl_training.errors import ConfigError


class OnePairAtATime(PointReach):
    """As most people write it first."""

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        return 0.0 if np.linalg.norm(achieved_goal - desired_goal) <= self.radius else -1.0

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> bool:
        return bool(np.linalg.norm(achieved_goal - desired_goal) <= self.radius)


class Loud(OnePairAtATime):
    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        assert achieved_goal.ndim == 1, "one pair at a time"
        return super().compute_reward(achieved_goal, desired_goal, info)


@pytest.mark.parametrize("kind", [PointReach, OnePairAtATime, Loud])
def test_batches_are_rewarded_as_pairs_are(kind: type[PointReach]) -> None:
    env, rng = kind(), np.random.default_rng(0)
    achieved = rng.uniform(-1, 1, (40, 3)).astype(np.float32)
    desired = np.where(np.arange(40)[:, None] % 2, achieved, rng.uniform(-1, 1, (40, 3))).astype(np.float32)
    reward, terminated = GoalReward(kind())(achieved, desired)
    assert reward.dtype == np.float32 and reward.shape == (40,)
    assert reward.tolist() == [float(env.compute_reward(a, d, {})) for a, d in zip(achieved, desired)]
    assert set(reward.tolist()) == {0.0, -1.0}
    if kind is PointReach:
        assert terminated is None
    else:
        assert terminated is not None and terminated.dtype == np.bool_ and (terminated == (reward == 0)).all()


def test_goals_reach_the_environment_in_their_own_type() -> None:
    class Typed(BitFlip):
        def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
            assert achieved_goal.dtype == desired_goal.dtype == np.int8
            return super().compute_terminated(achieved_goal, desired_goal, info)

    rows = np.eye(12, dtype=np.float32)
    reward, terminated = GoalReward(Typed())(rows, np.roll(rows, 1, axis=0))
    assert terminated is not None and not terminated.any() and (reward == -1).all()
    reward, terminated = GoalReward(Typed())(rows, rows)
    assert terminated is not None and terminated.all() and (reward == 0).all()


def test_the_outermost_reward_counts() -> None:
    class Doubled(gym.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            obs, reward, *rest = self.env.step(action)
            return obs, 2 * reward, *rest

        def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
            return 2 * self.env.get_wrapper_attr("compute_reward")(achieved, desired, info)

    reward, _ = GoalReward(Doubled(PointReach()))(np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32))
    assert reward.tolist() == [-2.0, -2.0]


class NoReward(gym.Env[Any, Any]):
    observation_space, action_space = PointReach().observation_space, PointReach().action_space


class NeedsInfo(PointReach):
    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        return super().compute_reward(achieved_goal, desired_goal, info) - info["effort"]

    def step(self, action: Any) -> Any:
        return self._obs(), -1.1, False, False, {"effort": 0.1}


class Numbered(PointReach):
    def __init__(self) -> None:
        super().__init__()
        number = gym.spaces.Discrete(5)
        self.observation_space = gym.spaces.Dict({"observation": number, "achieved_goal": number, "desired_goal": number})


REFUSED = {
    "no compute_reward": (lambda: NoReward(), "has no compute_reward"),
    "a reward from info": (lambda: NeedsInfo(), "failed: KeyError: 'effort'"),
    "goals that are numbered": (lambda: Numbered(), "are of Discrete(5); relabelling takes arrays of numbers"),
    "another reward in step": (
        lambda: gym.wrappers.TransformReward(PointReach(), lambda r: r + 0.5), "gave the rewards [-0.5, -0.5, -0.5, -0.5]"),
    "no goals": (lambda: gym.make("CartPole-v1"), "are of None"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_relabelled_is_refused(name: str) -> None:
    make, expected = REFUSED[name]
    with pytest.raises(ConfigError) as refused:
        GoalReward(make())
    assert expected in str(refused.value) and "leave out algorithm.relabel" in str(refused.value), str(refused.value)
