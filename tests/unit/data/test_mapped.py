"""Memory-mapped datasets: the same numbers, almost no memory, and a file that nothing changes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from safetensors.numpy import save_file
from test_formats import BROKEN_FOLDERS, FLAGS, HOPPER, THREE, datasets, equal, native

from rl_training.data import blocks as blocks_module
from rl_training.data.blocks import blocks, first_row
from rl_training.data.dataset import Dataset, load_dataset
from rl_training.data.formats.native import read_dataset, write_dataset
from rl_training.data.formats.tensors import DTYPES, mapped_tensors
from rl_training.errors import ConfigError


@settings(max_examples=25, deadline=None)
@given(dataset=datasets())
def test_mapped_data_are_the_data(tmp_path_factory: pytest.TempPathFactory, dataset: Dataset) -> None:
    folder = tmp_path_factory.mktemp("mapped") / "data"
    write_dataset(dataset, folder)
    equal(read_dataset(folder), read_dataset(folder, mmap=True))


def large(folder: Path, rows: int = 150_000) -> Path:
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(rows + 1, 20)).astype(np.float32)
    ends = np.arange(rows) % 1000 == 999
    columns: dict[str, Any] = {"obs": obs[:-1], "next_obs": obs[1:], "truncated": ends, "terminated": ends & False}
    columns |= {"action": np.tanh(obs[:-1, :6]), "reward": obs[1:, 0]}
    write_dataset(Dataset(**columns, name="large", sha256="", source=""), folder)
    return folder


def peak(action: Callable[[], Any]) -> tuple[Any, int]:
    tracemalloc.start()
    try:
        return action(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_mapped_data_take_almost_no_memory(tmp_path: Path) -> None:
    folder = large(tmp_path / "large")
    size = (folder / "data.safetensors").stat().st_size
    load_dataset(str(folder))  # what is imported on the way is not the data's
    mapped, little = peak(lambda: load_dataset(str(folder), mmap=True))
    loaded, much = peak(lambda: load_dataset(str(folder)))
    assert size > 25e6 and much > 0.9 * size, (size, much)
    assert little < 0.25 * size, f"{little:,} of {size:,} bytes"
    equal(loaded, mapped)


def test_mapped_arrays_are_views_and_the_file_stays_as_it_is(tmp_path: Path) -> None:
    folder = native(tmp_path / "a")
    before = (folder / "data.safetensors").read_bytes()
    (folder / "data.safetensors").chmod(0o444)
    data = read_dataset(folder, mmap=True)
    for key, column in data.columns().items():
        base = column
        while base is not None and not isinstance(base, np.memmap):
            base = base.base
        assert base is not None, f"{key} was copied"
        assert type(column) is np.ndarray, key
    data.obs[0] = 7.0
    torch.from_numpy(data.reward).add_(1.0)
    assert data.obs[0, 0] == 7.0 and (folder / "data.safetensors").read_bytes() == before
    assert read_dataset(folder, mmap=True).obs[0, 0] == 0.0


def test_actions_outside_by_a_rounding_error_are_clipped_in_a_copy(tmp_path: Path) -> None:
    action = np.full((4, 3), 1.00001, np.float32)
    for mmap in (False, True):
        assert read_dataset(native(tmp_path / str(mmap), action=action), mmap=mmap).action.max() == 1.0


@pytest.mark.parametrize("case", BROKEN_FOLDERS)
def test_broken_folders_give_the_same_errors(case: str, tmp_path: Path) -> None:
    break_it, message = BROKEN_FOLDERS[case]
    break_it(tmp_path / "mine")
    with pytest.raises(ConfigError) as caught:
        load_dataset(str(tmp_path / "mine"), HOPPER, THREE, [-2.0] * 3, [2.0] * 3, mmap=True)
    assert message in str(caught.value), str(caught.value)


def test_faults_beyond_the_first_block_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "BLOCK", 64)
    rows = 100
    zeros = np.zeros(rows, np.bool_)
    columns: dict[str, Any] = {"obs": np.zeros((rows, 1), np.float32), "next_obs": np.zeros((rows, 1), np.float32)}
    columns |= {"action": np.zeros((rows, 1), np.float32), "reward": np.zeros(rows, np.float32)}
    columns |= {"terminated": zeros.copy(), "truncated": zeros.copy()}
    for key, value, message in (("next_obs", np.inf, "next_obs row 69 is inf"), ("action", 2.0, "action row 69 is 2")):
        broken = columns | {key: columns[key].copy()}
        broken[key][69] = value
        folder = native(tmp_path / key, **broken)
        with pytest.raises(ConfigError, match=message):
            read_dataset(folder, mmap=True)
    both = {key: columns[key].copy() for key in ("terminated", "truncated")}
    both["terminated"][69:] = both["truncated"][71:] = True
    with pytest.raises(ConfigError, match="both set in row 71"):
        read_dataset(native(tmp_path / "both", **columns | both), mmap=True)
    assert [len(columns["reward"][rows]) for rows in blocks(columns["reward"])] == [64, 36]
    wide = np.zeros((5, 30), np.float32)
    assert list(blocks(wide[:, 0], wide)) == [slice(0, 2), slice(2, 4), slice(4, 5)], "by the widest"
    assert first_row(np.logical_and, FLAGS, FLAGS) == 2 and first_row(np.logical_and, FLAGS, ~FLAGS) is None


def test_every_type_that_safetensors_writes_is_mapped(tmp_path: Path) -> None:
    arrays = {name: np.arange(6).reshape(2, 3).astype(code) for name, code in DTYPES.items()}
    arrays["none"] = np.zeros((0, 3), np.float32)
    save_file(arrays, tmp_path / "x.safetensors", metadata={"about": "nothing"})
    mapped = mapped_tensors(tmp_path / "x.safetensors")
    assert set(mapped) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(mapped[name], array)
        assert mapped[name].dtype == array.dtype, name


def test_other_layouts_say_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "x.hdf5").touch()
    for name in (str(tmp_path / "x.hdf5"), "minari:a/b-v0"):
        with pytest.raises(ConfigError, match=f"Convert it first: rl-training data convert {name} DIR"):
            load_dataset(name, mmap=True)
    with pytest.raises(ConfigError, match="There is no dataset"):
        load_dataset(str(tmp_path / "nothing"), mmap=True)
