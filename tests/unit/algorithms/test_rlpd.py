"""RLPD: every batch is half prior data, and without prior data it is REDQ with normalized critics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sac_family import batch, constant_outputs, fixed_log_prob

from rl_training import RLPD, DroQ
from rl_training.data.dataset import Dataset
from rl_training.data.formats.native import write_dataset
from rl_training.errors import ConfigError
from rl_training.experiment import prepare

PRIOR = 1_000.0  # the reward of prior data; Pendulum's own is at most 0


@pytest.fixture
def prior(tmp_path: Path) -> str:
    rng, rows = np.random.default_rng(0), 300
    obs, after = (rng.uniform(-1, 1, (rows, 3)).astype(np.float32) for _ in range(2))
    no = np.zeros(rows, np.bool_)
    data = Dataset(
        obs=obs, next_obs=after, action=rng.uniform(-1, 1, (rows, 1)).astype(np.float32), terminated=no,
        reward=np.full(rows, PRIOR, np.float32), truncated=np.arange(rows) % 100 == 99, name="made", sha256="", source="test",
    )  # fmt: skip
    write_dataset(data, tmp_path / "prior")
    return str(tmp_path / "prior")


def agent(prior: str, **settings: Any) -> RLPD:
    torch.set_num_threads(1)
    return RLPD("Pendulum-v1", dataset=prior, **({"hidden": (8, 8), "learning_starts": 10} | settings))


def check_share(rlpd: RLPD) -> None:
    buffer, _ = prepare.buffer(rlpd)
    rng = np.random.default_rng(0)
    no = np.zeros((1, 1), np.bool_)
    shares = []
    for _ in range(12):
        step = {key: rng.standard_normal((1, 1, 3)).astype(np.float32) for key in ("obs", "next_obs")}
        buffer.add(step | {"action": np.zeros((1, 1, 1), np.float32), "reward": np.full((1, 1), -1.0, np.float32),
                           "terminated": no, "truncated": no})  # fmt: skip
        for drawn in buffer.batches(1, lambda rollout: rollout):
            assert not callable(drawn)
            shares.append(int((drawn["reward"] == PRIOR).sum()))
    assert len(shares) == 3 * 20, "none before learning_starts, then 20 for each step"
    assert shares == [128] * len(shares), sorted(set(shares))


def test_half_of_every_batch_is_prior_data(prior: str) -> None:
    check_share(agent(prior))
    for broken in (0.0, 1.0):
        with pytest.raises(AssertionError):
            check_share(agent(prior, offline_fraction=broken))
    by_size = agent(prior, offline_fraction=None)  # a union of both, from which half is not drawn
    with pytest.raises(AssertionError):
        check_share(by_size)


def test_without_prior_data_it_is_redq_with_normalized_critics(prior: str, tmp_path: Path) -> None:
    common: dict[str, Any] = {
        "total_steps": 60, "learning_starts": 20, "batch_size": 16, "gradient_steps": 2, "policy_delay": 2, "hidden": (8, 8),
        "output_dir": str(tmp_path), "progress": "quiet", "tensorboard": False, "num_episodes": 1, "members": 4,
        "target_entropy": -0.5,
    }  # fmt: skip
    redq = DroQ("Pendulum-v1", dropout=0.0, **common).learn()
    rlpd = RLPD("Pendulum-v1", dataset=prior, offline_fraction=0.0, **common).learn()
    mixed = RLPD("Pendulum-v1", dataset=prior, **common).learn()
    states = [one.parts.algorithm.state_dict() for one in (redq, rlpd, mixed)]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    assert not all(torch.equal(states[1][key], states[2][key]) for key in states[1])


@pytest.mark.parametrize(("backup_entropy", "value"), [(True, 3.0), (False, 2.0)])
def test_the_entropy_to_come_may_be_left_out(backup_entropy: bool, value: float, prior: str) -> None:
    rlpd: Any = agent(prior, members=2, backup_entropy=backup_entropy).parts.algorithm
    constant_outputs(rlpd.target.net, [2.0, 5.0])
    with fixed_log_prob(rlpd.policy, -1.0):
        assert rlpd.next_value(batch(3)["next_obs"]).tolist() == pytest.approx([value] * 3)


def test_critics_are_normalized_and_the_actor_is_not(prior: str) -> None:
    rlpd: Any = agent(prior).parts.algorithm
    names = [type(layer).__name__ for layer in rlpd.critic.body]
    assert names == ["EnsembleLinear", "EnsembleLayerNorm", "ReLU"] * 2 + ["EnsembleLinear"]
    assert "LayerNorm" not in {type(layer).__name__ for layer in rlpd.policy.net}
    assert rlpd.target_entropy == -0.5 and len(rlpd.critic.body[0].weight) == 10


def test_it_asks_for_data() -> None:
    with pytest.raises(ConfigError, match="rlpd is to learn from stored data, but no dataset is named") as refused:
        RLPD("Pendulum-v1").learn()
    assert "--dataset PATH" in str(refused.value)
