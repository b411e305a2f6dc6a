"""Changes of rewards: each preset by hand, and that env steps get the change that stored data had."""

from __future__ import annotations

import numpy as np
import pytest

from rl_training.config.schema import REWARD_CHANGES
from rl_training.data.dataset import Dataset
from rl_training.data.dataset_buffer import DatasetBuffer
from rl_training.data.mixture import MixtureBuffer
from rl_training.data.replay_buffer import ReplayBuffer
from rl_training.data.rewards import REWARD_PRESETS, RewardMap, reward_map
from rl_training.errors import ConfigError
from rl_training.specs import ActionSpec, Leaf, ObsSpec

OBS, ACTION = ObsSpec((Leaf("", (1,), "float32"),)), ActionSpec("continuous", dim=1)


def data(reward: list[float], ends: list[int]) -> Dataset:
    """Episodes that end with these rows."""
    rows, last = np.zeros((len(reward), 1), np.float32), np.zeros(len(reward), np.bool_)
    last[ends] = True
    return Dataset(
        obs=rows, action=rows, next_obs=rows, reward=np.array(reward, np.float32), terminated=np.zeros_like(last), truncated=last,
        name="made", sha256="", source="test",
    )  # fmt: skip


# Episodes that return -200, 0 and 300.
MIXED = data([-150.0, -50.0, 0.0, 100.0, 200.0], [1, 2, 4])


@pytest.mark.parametrize(
    ("preset", "before", "after"),
    [
        ("none", [-1.5, 0.0, 3.0], [-1.5, 0.0, 3.0]),
        ("return_range", [-150.0, 100.0], [-0.3, 0.2]),  # by 1 / 500
        ("locomotion_iql", [-150.0, 100.0], [-300.0, 200.0]),  # by 1000 / 500
        ("antmaze_iql", [0.0, 1.0], [-1.0, 0.0]),
        ("antmaze_cql", [0.0, 1.0], [-2.0, 2.0]),
        ("antmaze_cal_ql", [0.0, 1.0], [-5.0, 5.0]),
        ("antmaze_rebrac", [0.0, 1.0], [0.0, 100.0]),
        ("adroit_cal_ql", [-1.0, 0.0], [-5.0, 5.0]),
        ("standardize", [20.0, 20.0 + 14_600.0**0.5], [0.0, 1.0]),  # the mean of MIXED, and one deviation above it
        ("clip", [-2.0, -0.5, 0.25, 7.0], [-1.0, -0.5, 0.25, 1.0]),
    ],
)
def test_every_preset_by_hand(preset: str, before: list[float], after: list[float]) -> None:
    changed = reward_map(preset, 1.0, 0.0, MIXED)(np.array(before))
    assert changed.dtype == np.float32 and changed.tolist() == pytest.approx(after, abs=1e-5)


def test_the_config_knows_every_preset() -> None:
    assert tuple(REWARD_PRESETS) == REWARD_CHANGES


def test_standardized_rewards_have_mean_0_and_deviation_1() -> None:
    reward = reward_map("standardize", 1.0, 0.0, MIXED)(MIXED.reward)
    assert (reward.mean(), reward.std()) == pytest.approx((0.0, 1.0), abs=1e-6)


def test_a_range_of_500_and_a_scale_of_1000_double_every_reward() -> None:
    assert MIXED.episode_returns().tolist() == [-200.0, 0.0, 300.0]
    assert reward_map("return_range", 1000.0, 0.0, MIXED)(MIXED.reward).tolist() == (2 * MIXED.reward).tolist()


def test_scale_and_bias_come_after_the_preset() -> None:
    assert reward_map("antmaze_cql", 10.0, 1.0, MIXED)(np.array([0.0, 1.0])).tolist() == [-19.0, 21.0]
    assert reward_map("clip", 10.0, 1.0, MIXED)(np.array([-7.0, 0.5])).tolist() == [-9.0, 6.0]


def test_what_cannot_be_scaled_is_refused() -> None:
    same = data([1.0, 1.0], [0, 1])
    for preset in ("return_range", "locomotion_iql"):
        with pytest.raises(ConfigError, match="return the same"):
            reward_map(preset, 1.0, 0.0, same)
    with pytest.raises(ConfigError, match="cannot be standardized"):
        reward_map("standardize", 1.0, 0.0, same)


def test_env_steps_get_the_change_that_stored_data_had() -> None:
    offline = DatasetBuffer(MIXED, OBS, ACTION, batch_size=8, gamma=0.9)
    online = ReplayBuffer(OBS, ACTION, capacity=10, batch_size=8)
    mixed = MixtureBuffer(online, offline, 0.0, RewardMap(4.0, -2.0))
    zeros, no = np.zeros((2, 1, 1), np.float32), np.zeros((2, 1), np.bool_)
    chunk = {"obs": zeros, "action": zeros, "next_obs": zeros, "terminated": no, "truncated": no}
    reward = np.array([[0.0], [1.0]])
    mixed.add(chunk | {"reward": reward})
    (batch, *_) = mixed.batches(2, lambda rollout: rollout)
    assert not callable(batch) and set(batch["reward"].tolist()) == {-2.0, 2.0}
    assert reward.tolist() == [[0.0], [1.0]], "what is reported stays as it was"
