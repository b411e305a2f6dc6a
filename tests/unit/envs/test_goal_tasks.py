"""Our own tasks with goals: they keep Gymnasium's contract, and their rewards, ends and successes are as promised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check

from rl_training.envs import env_ids, make_env
from rl_training.envs.check import check_env
from rl_training.envs.goal_tasks import BitFlip, PointReach

IDS = ["rl_training/PointReach-v0", "rl_training/BitFlip-v0"]


@pytest.mark.parametrize("env_id", IDS)
def test_the_contract_is_kept(env_id: str) -> None:
    gymnasium_check(make_env(env_id).unwrapped, skip_render_check=True)
    report = check_env(env_id)
    assert report.findings == () and "plain Python" in str(report.capture), report
    assert env_id in env_ids("rl_training/")


def play(env: Any, choose: Any, seed: int = 0) -> list[tuple[Any, ...]]:
    obs, _ = env.reset(seed=seed)
    steps = []
    while not steps or not (steps[-1][2] or steps[-1][3]):
        steps.append(env.step(choose(obs)))
        obs = steps[-1][0]
    return steps


def test_point_reach_by_a_straight_line() -> None:
    env = make_env(IDS[0])
    steps = play(env, lambda obs: np.clip((obs["desired_goal"] - obs["achieved_goal"]) / 0.1, -1, 1))
    assert len(steps) == 50 and not any(step[2] for step in steps) and steps[-1][3], "only time ends an episode"
    for obs, reward, _, _, info in steps:
        near = np.linalg.norm(obs["achieved_goal"] - obs["desired_goal"]) <= 0.05
        assert (reward, info["is_success"]) == ((0.0, True) if near else (-1.0, False))
    assert steps[-1][4]["is_success"] and not steps[0][4]["is_success"]
    assert np.abs(env.step(np.full(3, 9.0))[0]["observation"] - steps[-1][0]["observation"]).max() <= 0.1 + 1e-6
    assert (PointReach(dims=5).observation_space["desired_goal"].shape, PointReach(radius=9.0).compute_reward(
        np.zeros((2, 3)), np.ones((2, 3)), {}).tolist()) == ((5,), [0.0, 0.0])  # fmt: skip


def test_bit_flip_by_the_shortest_way() -> None:
    for seed in range(20):
        env = make_env(IDS[1], kwargs={"bits": 8})
        start, _ = env.reset(seed=seed)
        wrong = int((start["achieved_goal"] != start["desired_goal"]).sum())
        steps = play(env, lambda obs: int(np.flatnonzero(obs["achieved_goal"] != obs["desired_goal"])[0]), seed)
        assert [step[1] for step in steps] == [-1.0] * (wrong - 1) + [0.0]
        assert steps[-1][2:4] == (True, False) and steps[-1][4] == {"is_success": True}


def test_bit_flip_is_cut_off_after_as_many_steps_as_bits() -> None:
    steps = play(BitFlip(), lambda obs: 0, seed=1)
    assert len(steps) == 12 and steps[-1][1:4] == (-1.0, False, True)
    first, second = steps[0][0]["observation"], steps[1][0]["observation"]
    assert (first != second).tolist() == [True] + [False] * 11, "one bit is flipped, and returned arrays stay"
