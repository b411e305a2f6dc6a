"""Summaries against hand-counted numbers, one broken dataset for each finding, and what a repair does to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_formats import BROKEN, BROKEN_FOLDERS, HOPPER, THREE, d4rl, native, write

from rl_training.data import blocks
from rl_training.data.dataset import Dataset, load_dataset
from rl_training.data.findings import discontinuous, find
from rl_training.data.formats import Expected
from rl_training.data.formats.native import write_dataset
from rl_training.data.formats.unchecked import read_unchecked
from rl_training.data.repair import repair
from rl_training.data.summary import Ends, dimensions, duplicates, ends, lengths, quartiles
from rl_training.errors import ConfigError


def sound(count: int = 20, episode: int = 5) -> Dataset:
    """Four episodes of five steps: the second ends by itself, the others at the limit."""
    rng = np.random.default_rng(0)
    before = rng.normal(size=(count + 1, 2)).astype(np.float32)
    row = np.arange(count)
    truncated = row % episode == episode - 1
    terminated = row == 2 * episode - 1
    return Dataset(
        obs=before[:-1], action=rng.uniform(-1, 1, (count, 1)).astype(np.float32), reward=(row % 3).astype(np.float32),
        terminated=terminated, truncated=truncated & ~terminated, next_obs=before[1:], name="made", sha256="", source="made",
    )  # fmt: skip


def with_value(key: str, row: Any, value: Any) -> Callable[[Dataset], Dataset]:
    def change(data: Dataset) -> Dataset:
        column = data.columns()[key].copy()
        column[row] = value
        return replace(data, **{key: column})

    return change


# what is done to sound data -> what is found, and what a repair does
CASES: dict[str, tuple[Callable[[Dataset], Dataset], str, str]] = {
    "NaN": (with_value("obs", 7, np.nan), "obs is NaN or infinite in row 7", "dropped 1 episode of 4 with NaN or infinity"),
    "inf": (with_value("reward", [2, 12], np.inf), "reward is NaN or infinite in 2 rows (2, 12)", "dropped 2 episodes of 4"),
    "both": (with_value("truncated", 9, True), "both set in row 9", "cleared truncated where terminated is set as well: 1 row"),
    "outside": (with_value("action", 4, 1.00001), "outside their bounds by a rounding error (up to 1.0e-05) in row 4",
                "clipped the actions of 1 row, outside by up to 1.0e-05"),
    "gap": (with_value("next_obs", 6, 3.0), "not the next row's obs, inside an episode, in row 6",
            "ended an episode at 1 row whose successor is not the next row"),
    "no end": (with_value("truncated", 19, False), "the last episode has no end", "marked the last episode"),
}  # fmt: skip


def test_sound_data_have_no_findings() -> None:
    assert find(sound(), limit=5) == []
    assert repair(sound())[1] == []


@pytest.mark.parametrize("case", CASES)
def test_each_fault_is_found_and_mended(case: str, tmp_path: Path) -> None:
    change, what, did = CASES[case]
    broken = change(sound())
    before = {key: column.copy() for key, column in broken.columns().items()}
    (finding,) = find(broken, limit=5)
    assert what in finding.what and "--repair OUT" in finding.todo, finding
    mended, done = repair(broken)
    assert len(done) == 1 and did in done[0], done
    assert find(mended, limit=5) == []
    for key, column in broken.columns().items():
        np.testing.assert_array_equal(column, before[key], err_msg="the source changed")
    write_dataset(mended, tmp_path / "mended")
    assert len(load_dataset(str(tmp_path / "mended"))) == {"NaN": 15, "inf": 10}.get(case, 20)


def test_the_gap_is_where_the_episode_ends_now() -> None:
    mended, _ = repair(CASES["gap"][0](sound()))
    assert np.flatnonzero(mended.truncated).tolist() == [4, 6, 14, 19] and mended.obs.shape == (20, 2)


def test_faults_that_only_people_can_mend() -> None:
    constant = replace(sound(), action=np.full((20, 1), 0.5, np.float32), reward=np.zeros(20, np.float32))
    assert [finding.what for finding in find(constant, limit=4)] == [
        "4 of 4 episodes are longer than the environment's 4 steps (first at row 0)",
        "every action is [0.5]",
        "every reward is 0",
    ]
    far = with_value("action", 3, -1.5)(sound())
    (finding,) = find(far, None)
    assert finding.fatal and "by up to 0.5 of half the range, in row 3" in finding.what, finding
    with pytest.raises(ConfigError, match=r"the action of row 3 is \[-1.5\], far outside"):
        repair(far)
    with pytest.raises(ConfigError, match="Every episode has a NaN"):
        repair(with_value("reward", slice(None), np.nan)(sound()))


def test_several_faults_are_all_mended() -> None:
    broken = sound()
    for case in ("inf", "both", "gap", "no end"):
        broken = CASES[case][0](broken)
    mended, done = repair(broken)
    assert len(done) == 4 and find(mended, 5) == [], done


def test_summary_numbers() -> None:
    data = sound()
    assert ends(data, 5) == Ends(terminated=1, time_limit=3, cut=0, unfinished=0)
    assert ends(data, 8) == Ends(1, 0, 3, 0) and ends(with_value("truncated", 19, False)(data), None) == Ends(1, 0, 2, 1)
    assert lengths(data).tolist() == [5, 5, 5, 5]
    assert quartiles(np.array([1.0, 2.0, 3.0, 4.0, np.nan, 5.0])) == [1, 2, 3, 4, 5]
    (one,) = dimensions(np.array([[-1.0], [0.0], [1.0], [1.0], [np.nan]], np.float32), "a")
    assert (one.low, one.mean, one.high, one.at_bounds, one.constant) == (-1, 0.25, 1, 0.75, False)
    assert [row.name for row in dimensions(np.zeros((3, 2)), "obs")] == ["obs[0]", "obs[1]"]


def test_images_are_one_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 100)
    pixels = np.random.default_rng(0).integers(3, 200, (7, 5, 4, 3)).astype(np.uint8)
    (one,) = dimensions(pixels, "obs")
    values = (one.low, one.mean, one.std, one.high)
    assert values == pytest.approx((pixels.min(), pixels.mean(), pixels.std(), pixels.max()))
    ends = np.arange(6) == 5
    data = replace(sound(), obs=pixels[:-1], next_obs=pixels[1:].copy(), action=np.zeros(6), reward=np.zeros(6), truncated=ends)
    data = replace(data, terminated=ends & False)
    assert discontinuous(data).tolist() == []
    data.next_obs[2, 0, 0, 0] ^= 1
    assert discontinuous(data).tolist() == [2]


def test_repeated_rows_are_counted() -> None:
    data = sound()
    rows = np.array([0, 1, 2, 3, 2, 2, 0])
    again = replace(data, **{key: column[rows] for key, column in data.columns().items()})
    assert duplicates(data) == 0 and duplicates(again) == pytest.approx(3 / 7)
    assert duplicates(with_value("reward", 4, 9.0)(again)) == pytest.approx(2 / 7), "equal in all but the reward"


# --- reading what the readers refuse


def test_unchecked_reading_gives_what_is_stored(tmp_path: Path) -> None:
    columns = d4rl()
    columns["actions"][2] = 9.0
    columns["rewards"][3] = np.nan
    columns["timeouts"][2] = True
    data = read_unchecked(str(write(tmp_path / "x.hdf5", columns)), Expected(action_low=-2.0, action_high=2.0), 1000)
    assert (data.action[2, 0], len(data), data.terminated[2], data.truncated[2]) == (4.5, 7, True, True)
    assert np.isnan(data.reward[3]) and data.next_obs[:, 0].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5]


def test_unchecked_reading_of_sound_data_is_the_readers(tmp_path: Path) -> None:
    columns = d4rl()
    del columns["next_observations"]
    for path in (write(tmp_path / "x.hdf5", columns), native(tmp_path / "a")):
        checked, as_is = load_dataset(str(path)), read_unchecked(str(path), Expected(), 1000)
        for key, column in checked.columns().items():
            np.testing.assert_array_equal(column, as_is.columns()[key], err_msg=key)
            assert column.dtype == as_is.columns()[key].dtype, key
        assert (checked.name, checked.sha256, checked.env_id) == (as_is.name, as_is.sha256, as_is.env_id)


@pytest.mark.parametrize("case", [*BROKEN, *BROKEN_FOLDERS])
def test_whatever_is_broken_gives_findings_or_one_error(case: str, tmp_path: Path) -> None:
    path = tmp_path / ("hopper.hdf5" if case in BROKEN else "mine")
    (BROKEN | BROKEN_FOLDERS)[case][0](path)
    try:
        find(read_unchecked(str(path), Expected(HOPPER, THREE, [-1.0] * 3, [1.0] * 3), 1000), None)
    except ConfigError as error:
        assert str(path) in error.what, error.what
