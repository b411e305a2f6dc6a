"""Labels by hand: TD(lambda) returns, advantages, when they are made, and that they belong to their rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rl_training.data import labelled
from rl_training.data.batch import Draws
from rl_training.data.dataset import Dataset
from rl_training.data.labelled import LabelledBuffer
from rl_training.specs import ActionSpec, Leaf, ObsSpec

OBS, ACTION = ObsSpec((Leaf("", (1,), "float32"),)), ActionSpec("continuous", dim=1)
NO_VALUES = [0.0] * 20


def stored(rewards: list[float], terminated: tuple[int, ...] = (), truncated: tuple[int, ...] = ()) -> Dataset:
    """Rows that observe their own number, and the next one after them."""
    rows = np.arange(len(rewards))
    return Dataset(
        obs=np.float32(rows[:, None]), action=np.float32(rows[:, None]), reward=np.float32(rewards),
        terminated=np.isin(rows, terminated), truncated=np.isin(rows, truncated), next_obs=np.float32(rows[:, None] + 1),
        name="made", sha256="", source="test",
    )  # fmt: skip


def buffer(data: Dataset, parts: tuple[int, ...] = (1,), gamma: float = 0.99, lam: float = 0.95, **more: Any) -> LabelledBuffer:
    return LabelledBuffer(data, OBS, ACTION, parts=parts, lam=lam, gamma=gamma, batch_size=64, **more)


class Values:
    """Values observation k at values[k]; remembers how many rows it was asked about at a time."""

    def __init__(self, values: list[float] = NO_VALUES) -> None:
        self.values, self.asked = torch.tensor(values), []  # type: ignore[var-annotated]

    def __call__(self, rollout: dict[str, Any]) -> dict[str, torch.Tensor]:
        self.asked.append(len(rollout["reward"]))
        assert rollout["reward"].shape == rollout["truncated"].shape == rollout["terminated"].shape == (self.asked[-1], 1)
        return {key: self.values[rollout[obs][..., 0].long()] for key, obs in (("value", "obs"), ("next_value", "next_obs"))}


def returns(made: LabelledBuffer, values: list[float] = NO_VALUES) -> list[float]:
    made.label(Values(values))
    return [float(x) for x in made.labels["return"]]


V = [0.5, 1.0, 1.5, 4.0, 0.0, 0.0]


def test_returns_of_an_episode_that_ends() -> None:
    assert returns(buffer(stored([1.0, 0.0, 2.0], terminated=(2,))), V) == pytest.approx([2.8884126, 1.95525, 2.0], abs=1e-5)


def test_returns_of_an_episode_that_is_cut_go_on_with_the_value_there() -> None:
    """R_t = r_t + gamma ((1 - lambda) V_{t+1} + lambda R_{t+1}), and R = r + gamma V at the cut."""
    expected = [2.0 + 0.99 * 4.0]
    for reward, value in ((0.0, 1.5), (1.0, 1.0)):
        expected.insert(0, reward + 0.99 * (0.05 * value + 0.95 * expected[0]))
    assert returns(buffer(stored([1.0, 0.0, 2.0], truncated=(2,))), V) == pytest.approx(expected, abs=1e-5)
    assert returns(buffer(stored([1.0, 0.0, 2.0])), V) == pytest.approx(expected, abs=1e-5), "the last row ends its episode"


def test_with_lambda_one_they_are_sums_of_rewards() -> None:
    made = buffer(stored([-5.0, -5.0, 5.0], terminated=(2,)), lam=1.0)
    assert returns(made, V) == pytest.approx([-5.0495, -0.05, 5.0], abs=1e-5)
    assert made.labels["advantage"].tolist() == pytest.approx([-5.5495, -1.05, 3.5], abs=1e-5)


def test_nothing_passes_from_one_episode_to_the_one_before() -> None:
    made = buffer(stored([1.0, 1.0, 100.0], terminated=(1, 2)), lam=1.0, gamma=1.0)
    assert returns(made) == [2.0, 1.0, 100.0]


def test_advantages_are_standardized_over_all_rows() -> None:
    made = buffer(stored([1.0, -1.0, 3.0], terminated=(2,)), gamma=0.0, standardize=True)
    assert returns(made) == [1.0, -1.0, 3.0]
    assert made.labels["advantage"].tolist() == pytest.approx([0.0, -1.224737, 1.224737], abs=1e-5)


def test_blocks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    data = stored([1.0, 0.0, 2.0, -1.0, 3.0], truncated=(1, 4))
    whole = returns(buffer(data), V)
    monkeypatch.setattr(labelled, "BLOCK", 2)
    values, made = Values(V), buffer(data)
    made.label(values)
    assert values.asked == [2, 2, 1] and made.labels["return"].tolist() == whole


def test_rows_are_labelled_when_a_part_of_the_cycle_begins() -> None:
    made, values = buffer(stored([1.0, 2.0]), parts=(2, 3)), Values()
    asked = []
    for _ in range(11):
        list(made.batches(1, values))
        asked.append(len(values.asked))
    assert asked == [1, 1, 2, 2, 2, 3, 3, 4, 4, 4, 5]
    at_once = list(buffer(stored([1.0, 2.0]), parts=(2, 3)).batches(11, values := Values()))
    assert len(at_once) == 11 and len(values.asked) == 5


@pytest.mark.parametrize("resident", [False, True])
def test_a_batch_has_the_labels_of_its_rows(resident: bool) -> None:
    made = buffer(stored([float(i * i) for i in range(10)]), parts=(2,), gamma=0.0)
    if resident:
        made.reside(torch.device("cpu"))
    kept = None
    for update, offset in enumerate((0.0, 0.0, -7.0)):  # the third update begins a new part, with other values
        (batch,) = made.batches(1, Values([offset] * 20))
        if resident:
            assert isinstance(batch, Draws) and kept in (None, batch.draw), "a captured update reads one and the same object"
            kept, batch = batch.draw, batch.draw()
        assert not isinstance(batch, Draws)
        rows = batch["action"][:, 0]
        assert len(rows) == 64 and len(rows.unique()) > 5, update
        torch.testing.assert_close(batch["return"], rows.square())
        torch.testing.assert_close(batch["advantage"], rows.square() - offset)


def test_labels_and_the_place_in_the_cycle_are_state() -> None:
    data = stored([1.0, 2.0, 3.0], terminated=(2,))
    made = buffer(data, parts=(3,))
    list(made.batches(2, Values(V)))
    state = made.state_dict()
    again = buffer(data, parts=(3,), seed=9)
    again.load_state_dict(state)

    def never(rollout: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError("in the middle of a part nothing is labelled")

    (one,), (other,) = made.batches(1, never), again.batches(1, never)
    assert not callable(one) and not callable(other) and torch.equal(one["index"], other["index"])
    assert torch.equal(one["return"], other["return"]) and bool((one["return"] != 0).all())
    list(again.batches(1, values := Values()))
    assert values.asked == [3]
    before, after = state["labels"]["return"].versions, again.state_dict()["labels"]["return"].versions
    assert before != after, "a checkpoint must see that the labels are new"
