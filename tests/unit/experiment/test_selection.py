"""Offline policy selection: values of policies that are known by hand, and correlations of ranks."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

sys.path.append(str(Path(__file__).parents[2] / "contract"))

from chain import Chain, M, S, chain_data

from rl_training.algorithms import find
from rl_training.data.rewards import RewardMap
from rl_training.errors import ConfigError
from rl_training.experiment.selection import fitted_q, rank_correlation, td_error

GAMMA = 0.99


class Fixed:
    """Goes right in the states that are listed, and left elsewhere."""

    def __init__(self, right: tuple[np.ndarray, ...]) -> None:
        self.right = right

    def act(self, obs: np.ndarray, rng: np.random.Generator, step: int, explore: bool) -> np.ndarray:
        assert not explore
        return np.array([int(any(np.array_equal(row, state) for state in self.right)) for row in obs])


def agent(right: tuple[np.ndarray, ...] = ()) -> Any:
    torch.set_num_threads(1)
    made: Any = find("iql")(lambda: Chain("discrete"), hidden=(32, 32), offline_updates=1, dataset="chain", seed=1)
    made.actor = Fixed(right)
    return made


@pytest.mark.parametrize(("right", "from_s", "from_x"), [
    ((), 0.6, 0.0),  # left in S; from X on, left in M earns nothing
    ((S, M), GAMMA, GAMMA),
    ((S,), 0.0, 0.0),
    ((M,), 0.6, GAMMA),
])  # fmt: skip
def test_the_value_of_a_policy_that_no_episode_followed(right: tuple[Any, ...], from_s: float, from_x: float) -> None:
    """Two of three stored episodes start in S, the third in X."""
    found = fitted_q(agent(right), chain_data("discrete"), GAMMA, updates=600, seed=0)
    assert found.value == pytest.approx((2 * from_s + from_x) / 3, abs=0.06)
    assert found.fit < 0.05


def test_fitting_is_repeatable_and_leaves_the_agent_alone() -> None:
    judged = agent((S, M))
    before = {key: value.clone() for key, value in judged.parts.algorithm.state_dict().items()}
    values = [fitted_q(judged, chain_data("discrete"), GAMMA, updates=20, seed=4).value for _ in range(2)]
    assert values[0] == values[1]
    assert all(torch.equal(value, before[key]) for key, value in judged.parts.algorithm.state_dict().items())


def test_the_error_of_critics_by_hand() -> None:
    judged = agent()
    for critic in (judged.parts.algorithm.critic, judged.parts.algorithm.value):
        for parameter in critic.parameters():
            parameter.data.zero_()  # every value is 0, so the error is the reward
    found = td_error(judged, chain_data("discrete"), RewardMap(scale=10.0), seed=0)
    assert found.value == pytest.approx(-10 * (0.6 + 1.0) / 5, abs=0.2), "with the rewards that were learned from"


@pytest.mark.parametrize("name", ["ppo", "trpo", "awr"])
def test_an_agent_without_critics_of_actions_is_refused_by_its_name(name: str) -> None:
    stored: dict[str, Any] = {"dataset": "chain", "offline_updates": 1} if name == "awr" else {}
    with pytest.raises(ConfigError, match=f"{name} has no critics"):
        td_error(find(name)(lambda: Chain("discrete"), **stored), chain_data("discrete"), RewardMap(), seed=0)


@pytest.mark.parametrize(("a", "b", "expected"), [
    ([1.0, 2.0, 3.0], [10.0, 20.0, 900.0], 1.0),
    ([1.0, 2.0, 3.0], [3.0, 2.0, 1.0], -1.0),
    ([1.0, 2.0, 3.0, 4.0], [2.0, 1.0, 4.0, 3.0], 0.6),  # 1 - 6 * 4 / (4 * 15)
    ([1.0, 1.0, 2.0], [5.0, 6.0, 7.0], math.sqrt(3) / 2),
])  # fmt: skip
def test_correlations_of_ranks_by_hand(a: list[float], b: list[float], expected: float) -> None:
    assert rank_correlation(a, b) == pytest.approx(expected)


def test_what_does_not_vary_has_no_correlation() -> None:
    assert math.isnan(rank_correlation([1.0, 1.0], [1.0, 2.0]))
