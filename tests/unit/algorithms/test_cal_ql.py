"""Cal-QL: where the floor is, what it is made of, and that without one it is CQL."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sac_family import algorithm, batch, changed_parts

from rl_training import CalQL
from rl_training.data.dataset import Dataset
from rl_training.data.formats.native import write_dataset
from rl_training.experiment import prepare

DATA = {"dataset": "made", "offline_updates": 10}


def cal_ql(**settings: Any) -> Any:
    return algorithm("cal_ql", **DATA | {"max_target_backup": False} | settings)


def test_the_policys_actions_are_worth_at_least_the_return() -> None:
    """Values of the data's action, a random one, and the policy's of -5 and 3, for a return of -2: these become -2 and 3."""
    q = torch.tensor([-9.0, -8.0, -5.0, 3.0]).reshape(1, 4, 1).requires_grad_()
    pushed = cal_ql(samples=1).pushed_down(q, torch.zeros(3, 1), {"mc_return": torch.tensor([-2.0])})
    assert pushed.flatten().tolist() == [-8.0, -2.0, 3.0], "random actions have no floor"
    (gradient,) = torch.autograd.grad(pushed.sum(), q)
    assert gradient.flatten().tolist() == [0.0, 1.0, 0.0, 1.0], "nor does the floor move what is below it"


def test_the_floor_comes_before_the_densities() -> None:
    q, density = torch.tensor([0.0, 0.0, -5.0, 3.0]).reshape(1, 4, 1), torch.tensor([[0.0], [0.5], [-1.0]])
    pushed = cal_ql(samples=1).pushed_down(q, density, {"mc_return": torch.tensor([-2.0])})
    assert pushed.flatten().tolist() == [0.0, -2.5, 4.0]
    rho = cal_ql(samples=1, variant="rho").pushed_down(q - 9, density, {"mc_return": torch.tensor([-2.0])})
    assert rho.flatten().tolist() == [-9.0, -9.0, -2.0, -2.0], "neither do the data's actions have one"


def test_every_row_has_its_own_floor() -> None:
    q = torch.zeros(2, 7, 3)
    pushed = cal_ql(samples=2).pushed_down(q, torch.zeros(6, 3), {"mc_return": torch.tensor([1.0, -1.0, 2.0])})
    assert pushed[:, :2].abs().max() == 0
    assert torch.equal(pushed[:, 2:], torch.tensor([1.0, 0.0, 2.0]).expand(2, 4, 3))


def test_without_a_return_it_is_cql_bit_for_bit() -> None:
    """As in the rows of an episode that is still going on."""
    rule, cql = cal_ql(), algorithm("cql", **DATA)
    cql.load_state_dict(rule.state_dict())
    for one in (rule, cql):
        torch.manual_seed(1)
        one.update(batch() | {"mc_return": torch.full((16,), -torch.inf)})
    states = rule.state_dict(), cql.state_dict()
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_under_an_infinite_floor_only_random_actions_and_the_datas_count() -> None:
    rule = cal_ql(samples=2)
    q = torch.randn(2, 7, 4, requires_grad=True)
    pushed = rule.pushed_down(q, torch.zeros(6, 4), {"mc_return": torch.full((4,), 1e9)})
    (gradient,) = torch.autograd.grad(pushed.sum(), q)
    assert gradient[:, 3:].abs().max() == 0 and (gradient[:, 1:3] == 1).all()


def test_a_floor_never_lowers_the_gap_and_raises_it_where_it_holds() -> None:
    rule = cal_ql(penalty=1.0)
    gaps = []
    for floor in (-torch.inf, 1.0):
        torch.manual_seed(2)
        gaps.append(rule.critic_loss(batch() | {"mc_return": torch.full((16,), floor)})[1]["gap"].item())
    assert gaps[1] > gaps[0] + 0.5


def test_each_loss_moves_its_own_part_alone() -> None:
    rule = cal_ql()
    data = batch() | {"mc_return": torch.zeros(16)}
    assert changed_parts(rule, partial(rule.critic_optim.minimize, "critic_loss", data)) == {"critic"}


def test_batches_hold_returns_and_half_of_each_is_stored_data(tmp_path: Path) -> None:
    """One stored episode of -5, -5 and a final 5, after a change of rewards from 0, 0 and 1: -5.0495, -.05 and 5."""
    obs = np.arange(9, dtype=np.float32).reshape(3, 3)
    last = np.array([False, False, True])
    data = Dataset(
        obs=obs, next_obs=obs + 1, action=np.zeros((3, 1), np.float32), reward=np.float32([0, 0, 1]), terminated=last,
        truncated=np.zeros(3, np.bool_), name="made", sha256="", source="test",
    )  # fmt: skip
    write_dataset(data, tmp_path / "data")
    agent = CalQL(
        "Pendulum-v1", dataset=str(tmp_path / "data"), reward="antmaze_cal_ql", hidden=(8, 8), batch_size=8, offline_updates=1,
        total_steps=10,
    )  # fmt: skip
    buffer, _ = prepare.buffer(agent)
    (drawn,) = buffer.batches(1, lambda rollout: rollout)
    assert not callable(drawn)
    expected = {-5.0: {-5.0495, -0.05}, 5.0: {5.0}}
    for reward, value in zip(drawn["reward"].tolist(), drawn["mc_return"].tolist()):
        assert min(abs(value - e) for e in expected[reward]) < 1e-4
    step = {key: np.ones((1, 1, 3), np.float32) for key in ("obs", "next_obs")}
    no = np.zeros((1, 1), np.bool_)
    buffer.add(step | {"action": np.zeros((1, 1, 1), np.float32), "reward": np.ones((1, 1)), "terminated": no, "truncated": no})
    (mixed,) = buffer.batches(1, lambda rollout: rollout)
    assert not callable(mixed)
    assert mixed["mc_return"].isfinite().sum() == 4, "half is stored; the online episode has not ended, so it has no floor"
    assert (mixed["reward"][~mixed["mc_return"].isfinite()] == 5.0).all(), "rewards of env steps are changed alike"


def test_the_target_is_that_of_the_best_of_several_actions_by_default() -> None:
    config = CalQL("Pendulum-v1", **DATA).config
    assert config.algorithm.max_target_backup and config.data.offline_fraction == 0.5
    with pytest.raises(Exception, match="epsilon"):
        CalQL("Pendulum-v1", epsilon=0.1, **DATA)
