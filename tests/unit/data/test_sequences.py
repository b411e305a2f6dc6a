"""Slices of episodes: returns-to-go by hand, padding, and how often each episode is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rl_training.data.dataset import Dataset
from rl_training.data.sequences import SequenceBuffer, returns_to_go


def dataset(lengths: list[int], discrete: bool = False, nested: bool = False) -> Dataset:
    """Rows are numbered from 1; the reward of a row is its number."""
    count = sum(lengths)
    number = np.arange(1, count + 1, dtype=np.float32)
    last = np.isin(np.arange(count), np.cumsum(lengths) - 1)
    obs: Any = {"a": number[:, None], "b": -number[:, None]} if nested else number[:, None]
    action = number.astype(np.int64) if discrete else number[:, None] / 100
    return Dataset(
        obs=obs, action=action, reward=number, terminated=last & (np.arange(count) % 2 == 0),
        truncated=last & (np.arange(count) % 2 == 1), next_obs=obs, name="rows", sha256="", source="made",
    )  # fmt: skip


def buffer(data: Dataset, context: int = 3, scale: float = 2.0) -> SequenceBuffer:
    return SequenceBuffer(data, batch_size=6000, context=context, scale=scale, seed=0)


def test_returns_to_go_are_sums_to_the_end_of_the_episode() -> None:
    reward = np.array([1.0, 2.0, 3.0, 10.0, -4.0])
    assert returns_to_go(reward, np.array([0, 3])).tolist() == [6.0, 5.0, 3.0, 6.0, -4.0]
    assert (returns_to_go(reward, np.array([0, 3])) / 2).tolist()[:3] == [3.0, 2.5, 1.5]


def test_a_slice_is_padded_on_the_left_and_ends_with_its_episode() -> None:
    got = buffer(dataset([3, 5])).gather(np.array([1, 3, 7]))
    assert got["obs"][..., 0].tolist() == [[0, 2, 3], [4, 5, 6], [0, 0, 8]]
    assert got["mask"].tolist() == [[False, True, True], [True, True, True], [False, False, True]]
    assert got["timestep"].tolist() == [[0, 1, 2], [0, 1, 2], [0, 0, 4]], "since the episode began, not the slice"
    assert got["to_go"].tolist() == [[0, 2.5, 1.5], [15, 13, 10.5], [0, 0, 4]]
    torch.testing.assert_close(got["action"][..., 0], got["obs"][..., 0] / 100)


def test_discrete_actions_and_parts_of_observations() -> None:
    got = buffer(dataset([3, 5], discrete=True, nested=True)).gather(np.array([1]))
    assert got["action"].tolist() == [[0, 2, 3]] and got["action"].dtype == torch.int64
    assert got["obs"]["b"][..., 0].tolist() == [[0, -2, -3]]


def test_episodes_are_drawn_by_their_length_and_begun_anywhere() -> None:
    (batch,) = buffer(dataset([2, 6]), context=8).batches(1, lambda rollout: rollout)
    first = batch["obs"][..., 0].numpy()[np.arange(6000), batch["mask"].int().argmax(1).numpy()]
    share = np.bincount(first.astype(int), minlength=9)[1:] / 6000
    assert np.abs(share - 1 / 8).max() < 0.02, share


def test_it_goes_on_where_it_was_saved() -> None:
    one, other = buffer(dataset([5, 5])), buffer(dataset([5, 5]))
    list(one.batches(3, lambda rollout: rollout))
    other.load_state_dict(one.state_dict())
    (mine,), (theirs,) = (one.batches(1, lambda rollout: rollout), other.batches(1, lambda rollout: rollout))
    assert torch.equal(mine["obs"], theirs["obs"])


def test_stored_slices_stay_as_they_are() -> None:
    made = buffer(dataset([3, 5]))
    first = made.gather(np.array([1]))
    first["obs"].zero_()
    assert made.gather(np.array([1]))["obs"][0, :, 0].tolist() == [0, 2, 3]
