"""What a dataset knows about its episodes, and how `load_dataset` chooses a reader."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from rl_training.data.dataset import Dataset, load_dataset
from rl_training.data.dataset_buffer import DatasetBuffer
from rl_training.data.formats.native import write_dataset
from rl_training.errors import ConfigError
from rl_training.specs import ActionSpec, Leaf, ObsSpec


def make(
    reward: list[float], terminated: Sequence[int] = (), truncated: Sequence[int] = (), env_id: str | None = None
) -> Dataset:
    """Rows whose observation is their number and whose action is a tenth of it."""
    count = len(reward)
    flags = np.zeros((2, count), np.bool_)
    flags[0, list(terminated)] = True
    flags[1, list(truncated)] = True
    rows = np.arange(count, dtype=np.float32)[:, None]
    return Dataset(
        obs=rows, action=rows / 100, reward=np.array(reward, np.float32), terminated=flags[0], truncated=flags[1],
        next_obs=rows + 1, name="made", sha256="0" * 64, source="test", env_id=env_id,
    )  # fmt: skip


def test_episodes_end_at_terminations_truncations_and_the_last_row() -> None:
    data = make([1, 2, 3, 4, 5, 6], terminated=[1], truncated=[3])
    assert data.episode_starts().tolist() == [0, 2, 4]
    assert data.episode_returns().tolist() == [3.0, 7.0, 11.0]
    flagged = make([1, 2, 3], terminated=[0, 1], truncated=[2])
    assert flagged.episode_starts().tolist() == [0, 1, 2], "an end in the last row must not begin an empty episode"
    assert make([7.0]).episode_returns().tolist() == [7.0]


def test_returns_are_summed_in_float64() -> None:
    assert make([2.0**24, 1.0]).episode_returns().tolist() == [2.0**24 + 1]


def test_return_range_gives_the_scale_of_iql() -> None:
    data = make([-200.0, 0.0, 100.0, 200.0], terminated=[0], truncated=[1])
    assert data.episode_returns().tolist() == [-200.0, 0.0, 300.0]
    assert data.return_range() == 500.0
    scaled = data.scaled(1000 / data.return_range())
    assert scaled.reward.tolist() == [-400.0, 0.0, 200.0, 400.0], "every reward doubles"
    assert (scaled.reward.dtype, data.reward[0], scaled.sha256) == (np.float32, -200.0, data.sha256)


def test_scaled_adds_the_bias_after_scaling() -> None:
    assert make([0.0, 1.0]).scaled(10.0, -5.0).reward.tolist() == [-5.0, 5.0]


@pytest.mark.parametrize(
    ("fraction", "rows"),
    [(0.01, [2, 3]), (0.25, [2, 3]), (0.5, [2, 3, 4]), (0.75, [0, 1, 2, 3, 4]), (1.0, [0, 1, 2, 3, 4, 5])],
)
def test_filter_keeps_the_best_episodes_whole_and_in_order(fraction: float, rows: list[int]) -> None:
    data = make([1, 1, 4, 5, 3, 0], terminated=[1, 4], truncated=[3])  # returns 2, 9, 3, 0
    kept = data.filter(fraction)
    assert kept.obs[:, 0].tolist() == rows
    assert kept.next_obs[:, 0].tolist() == [row + 1 for row in rows]
    assert len(kept.action) == len(kept.reward) == len(kept.terminated) == len(kept.truncated) == len(kept) == len(rows)


def test_filter_counts_as_written_in_decimal() -> None:
    data = make(list(range(100)), terminated=list(range(100)))
    assert len(data.filter(0.29)) == 29, "0.29 * 100 is 28.999999999999996"
    assert data.filter(0.05).reward.tolist() == [95, 96, 97, 98, 99]


def test_filter_prefers_the_earlier_of_equal_episodes() -> None:
    data = make([1, 2] * 100, terminated=range(200))
    assert data.filter(0.1).obs[:, 0].tolist() == list(range(1, 40, 2))


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.01, float("nan")])
def test_filter_refuses_other_fractions(fraction: float) -> None:
    with pytest.raises(ConfigError, match=f"{fraction}.*above 0 and at most 1"):
        make([1.0]).filter(fraction)


def test_filter_also_takes_dict_observations() -> None:
    data = make([1, 5], terminated=[0])
    both = Dataset(**data.columns() | {"obs": {"a": data.obs, "b": -data.obs}}, name="", sha256="", source="")
    assert {key: a.tolist() for key, a in both.filter(0.5).obs.items()} == {"a": [[1.0]], "b": [[-1.0]]}


def test_a_chunk_is_one_environment_and_feeds_the_buffer() -> None:
    data = make([1, 2, 4, 8], terminated=[1])
    (chunk,) = data.chunks(1000)
    assert {key: column.shape for key, column in chunk.items()} == {
        "obs": (4, 1, 1), "action": (4, 1, 1), "reward": (4, 1), "terminated": (4, 1), "truncated": (4, 1),
        "next_obs": (4, 1, 1),
    }  # fmt: skip
    spec = ObsSpec((Leaf("", (1,), "float32"),))
    buffer = DatasetBuffer(data, spec, ActionSpec("continuous", dim=1), batch_size=64, gamma=0.5, n_step=2)
    batch = next(buffer.batches(1, lambda b: b))
    rewards = {int(s): float(r) for s, r in zip(batch["obs"][:, 0], batch["reward"])}
    assert rewards == {0: 2.0, 1: 2.0, 2: 8.0, 3: 8.0}, "two-step sums stop at the end of an episode"


def test_load_dataset_says_what_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "hopper.pkl").write_bytes(b"x")
    with pytest.raises(ConfigError, match=r"hopper.pkl is not a kind of dataset(.|\n)*minari:NAME"):
        load_dataset(str(tmp_path / "hopper.pkl"))
    with pytest.raises(ConfigError, match=r"There is no dataset .*nothing(.|\n)*minari download NAME"):
        load_dataset(str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match=r"Did you mean .*hopper.pkl"):
        load_dataset(str(tmp_path / "hoper.pkl"))


def test_load_dataset_reads_our_own_folder(tmp_path: Path) -> None:
    write_dataset(make([1, 2], env_id="Hopper-v5"), tmp_path / "mine")
    loaded = load_dataset(str(tmp_path / "mine"))
    assert (loaded.name, loaded.env_id, loaded.source) == ("made", "Hopper-v5", str(tmp_path / "mine"))
