"""What a run does to its dataset before it learns, and which settings of data it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rl_training.algorithms import find
from rl_training.data.batch import BLOCK
from rl_training.data.dataset import Dataset
from rl_training.data.dataset_buffer import DatasetBuffer
from rl_training.data.formats.native import write_dataset
from rl_training.data.mixture import MixtureBuffer
from rl_training.errors import ConfigError
from rl_training.experiment import prepare

RETURNS = (-200.0, 0.0, 300.0)


@pytest.fixture
def data(tmp_path: Path) -> str:
    """Three episodes of ten steps; Pendulum's shapes."""
    rows, rng = 30, np.random.default_rng(0)
    obs, after = (rng.uniform(-1, 1, (rows, 3)).astype(np.float32) for _ in range(2))
    made = Dataset(
        obs=obs, next_obs=after, action=rng.uniform(-1, 1, (rows, 1)).astype(np.float32), terminated=np.zeros(rows, np.bool_),
        reward=np.repeat(np.float32(RETURNS) / 10, 10), truncated=np.arange(rows) % 10 == 9, name="made", sha256="", source="",
    )  # fmt: skip
    write_dataset(made, tmp_path / "data")
    return str(tmp_path / "data")


def buffer(data: str, name: str = "iql", **settings: Any) -> Any:
    agent = find(name)("Pendulum-v1", dataset=data, **{"offline_updates": 10, "hidden": (8, 8)} | settings)
    prepare.check_phases(agent.config, agent.parts)
    return prepare.buffer(agent)[0]


def test_rewards_are_changed_before_they_are_stored(data: str) -> None:
    plain, scaled = buffer(data).storage, buffer(data, reward="locomotion_iql", reward_bias=0.5).storage
    assert np.allclose(scaled.rows[:, -4], 2.0 * plain.rows[:, -4] + 0.5), "1000 over the range of 500 is 2"


def test_the_rewards_of_env_steps_are_changed_alike_and_those_of_episodes_are_not(data: str) -> None:
    mixed = buffer(data, reward="locomotion_iql", total_steps=20)
    assert isinstance(mixed, MixtureBuffer)
    no = np.zeros((1, 1), np.bool_)
    step = {key: np.zeros((1, 1, 3), np.float32) for key in ("obs", "next_obs")}
    chunk = step | {"action": np.zeros((1, 1, 1), np.float32), "reward": np.full((1, 1), -3.0, np.float32)}
    mixed.add(chunk | {"terminated": no, "truncated": no})
    assert mixed.online.storage.rows[0, -4] == -6.0
    assert chunk["reward"][0, 0] == -3.0, "what is reported stays raw"


def test_only_the_best_episodes_are_kept_and_statistics_are_theirs(data: str) -> None:
    agent = find("td3_bc")("Pendulum-v1", dataset=data, offline_updates=10, keep_best=0.34)
    kept, info = prepare.buffer(agent)
    assert isinstance(kept, DatasetBuffer) and info is not None
    assert len(kept.storage) == info["transitions"] == 10
    assert np.allclose(kept.storage.rows[:, -4], 30.0)
    normalizer = agent.parts.algorithm.policy.normalizer
    assert normalizer is not None and np.allclose(normalizer.mean.numpy(), kept.storage.rows[:, :3].mean(0), atol=1e-6)


def test_the_map_is_recorded_with_the_run(data: str) -> None:
    agent = find("iql")("Pendulum-v1", dataset=data, offline_updates=10, reward="antmaze_cql")
    _, info = prepare.buffer(agent)
    assert info is not None and info["reward"] == {"scale": 4.0, "bias": -2.0, "clip": None}


GIVEN = [("keep_best", 0.5), ("reward", "clip"), ("reward_scale", 2.0), ("reward_bias", 1.0), ("offline_fraction", 0.3)]


@pytest.mark.parametrize(("setting", "value"), GIVEN)
def test_a_setting_of_data_without_data_is_refused(setting: str, value: Any) -> None:
    agent = find("sac")("Pendulum-v1", **{setting: value})
    with pytest.raises(ConfigError, match=rf"data\.{setting} = .* has no effect without a dataset"):
        prepare.check_phases(agent.config, agent.parts)


def test_a_share_of_data_without_env_steps_is_refused(data: str) -> None:
    with pytest.raises(ConfigError, match=r"offline_fraction = 0\.3 has no effect without env steps"):
        buffer(data, offline_fraction=0.3)


def test_equal_returns_cannot_scale_rewards(tmp_path: Path, data: str) -> None:
    with pytest.raises(ConfigError, match="return the same"):
        buffer(data, reward="return_range", keep_best=0.34)


@pytest.mark.parametrize(("cadences", "size"), [((10_000, 10_000, 1_000), BLOCK), ((64, 0, 100), 4), ((0, 0, 7), 1)])
def test_blocks_of_updates_end_where_hooks_are_due(cadences: tuple[int, int, int], size: int) -> None:
    evaluation, checkpoint, logging = cadences
    every = {"eval_every": evaluation, "checkpoint_every": checkpoint, "logging_every": logging}
    assert prepare.block(find("iql")("Pendulum-v1", dataset="none", offline_updates=10, **every).config) == size


def test_cadences_do_not_change_what_is_learned(data: str, tmp_path: Path) -> None:
    """Updates come in blocks that end where hooks are due, and the actor's step size falls along a cosine all the while."""
    weights = []
    for logging, checkpoint in ((1000, 0), (30, 0), (1000, 7)):
        agent = find("iql")(
            "Pendulum-v1", dataset=data, offline_updates=60, hidden=(8, 8), output_dir=str(tmp_path / f"{logging}-{checkpoint}"),
            logging_every=logging, checkpoint_every=checkpoint, num_episodes=0, progress="quiet", tensorboard=False,
        )  # fmt: skip
        weights.append(agent.learn().parts.algorithm.state_dict())
    for other in weights[1:]:
        assert [key for key in other if not torch.equal(other[key], weights[0][key])] == []


@pytest.mark.parametrize("name", ["iql", "marwil", "awr", "bc"])
def test_mapped_data_stay_on_disk_for_every_kind_of_buffer(name: str, data: str, tmp_path: Path) -> None:
    mapped = buffer(data, name, memory_map=True, output_dir=str(tmp_path / "runs"))
    assert isinstance(mapped.storage.rows.base, np.memmap)


def test_the_decision_transformer_refuses_rewards_that_are_not_those_it_asks_for(data: str) -> None:
    with pytest.raises(ConfigError, match=r"reward_scale = 2.* asks for returns"):
        find("decision_transformer")("Pendulum-v1", dataset=data, offline_updates=1, reward_scale=2.0)
