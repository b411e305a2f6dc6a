"""The readers: D4RL's rules row by row, exact round trips, and one clear message for each kind of broken file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from rl_training import _atomic
from rl_training.data.dataset import Dataset, load_dataset
from rl_training.data.formats import Expected, sha256
from rl_training.data.formats.d4rl import read_d4rl
from rl_training.data.formats.minari import read_minari
from rl_training.data.formats.minari_writer import write_minari
from rl_training.data.formats.native import read_dataset, write_dataset
from rl_training.envs.spaces import action_translator
from rl_training.errors import ConfigError, MissingExtraError, StorageError, UserError
from rl_training.specs import ActionSpec, Leaf, ObsSpec

Columns = dict[str, Any]
HOPPER = ObsSpec((Leaf("", (11,), "float32"),))
THREE = ActionSpec("continuous", dim=3)


def d4rl(count: int = 7, terminals: tuple[int, ...] = (2,), timeouts: tuple[int, ...] = (5,), size: int = 1) -> Columns:
    """Observations that count up, so that every row can be recognised."""
    rows = np.arange(count, dtype=np.float32)
    observations = np.repeat(rows[:, None], size, axis=1)
    return {
        "observations": observations,
        "actions": np.zeros((count, 3), np.float32),
        "rewards": rows * 10,
        "terminals": np.isin(rows, terminals),
        "timeouts": np.isin(rows, timeouts),
        "next_observations": observations + 0.5,  # unlike the next row, to see which of the two is used
    }


def write(path: Path, columns: Columns, **options: Any) -> Path:
    with h5py.File(path, "w") as file:
        for key, column in columns.items():
            file.create_dataset(key, data=column, **options)
    return path


def equal(a: Dataset, b: Dataset) -> None:
    for (key, left), right in zip(a.columns().items(), b.columns().values()):
        pairs = {key: (left, right)}
        if isinstance(left, dict):
            assert set(left) == set(right), key
            pairs = {f"{key}.{part}": (left[part], right[part]) for part in left}
        for name, (x, y) in pairs.items():
            assert x.dtype == y.dtype, (name, x.dtype, y.dtype)
            np.testing.assert_array_equal(x, y, err_msg=name)


# --- D4RL


def test_d4rl_makes_the_transitions_of_qlearning_dataset(tmp_path: Path) -> None:
    data = read_d4rl(write(tmp_path / "seven.hdf5", d4rl()))
    assert data.obs[:, 0].tolist() == [0, 1, 2, 3, 4], "row 5 timed out, and row 6 has no successor"
    assert data.next_obs[:, 0].tolist() == [1, 2, 3, 4, 5]
    assert data.terminated.tolist() == [False, False, True, False, False]
    assert data.truncated.tolist() == [False, False, False, False, True], "the dropped row ends the episode before it"
    assert data.reward.tolist() == [0, 10, 20, 30, 40]
    assert data.episode_starts().tolist() == [0, 3]
    assert (data.name, data.sha256) == ("seven", sha256(tmp_path / "seven.hdf5"))
    assert data.obs.dtype == data.action.dtype == data.reward.dtype == np.float32


def test_a_dropped_timeout_after_a_termination_cuts_nothing(tmp_path: Path) -> None:
    data = read_d4rl(write(tmp_path / "x.hdf5", d4rl(5, terminals=(1,), timeouts=(2,))))
    assert data.obs[:, 0].tolist() == [0, 1, 3]
    assert (data.terminated.tolist(), data.truncated.tolist()) == ([False, True, False], [False, False, False])


def test_keep_timeouts_uses_the_stored_successors(tmp_path: Path) -> None:
    data = read_d4rl(write(tmp_path / "x.hdf5", d4rl()), keep_timeouts=True)
    assert data.next_obs[:, 0].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5]
    assert np.flatnonzero(data.truncated).tolist() == [5]
    assert np.flatnonzero(data.terminated).tolist() == [2]
    columns = d4rl()
    del columns["next_observations"]
    with pytest.raises(ConfigError, match="no next_observations, so rows with a timeout cannot be kept"):
        read_d4rl(write(tmp_path / "y.hdf5", columns), keep_timeouts=True)


def test_without_timeouts_the_step_limit_is_counted_from_each_termination(tmp_path: Path) -> None:
    columns = d4rl(12, terminals=(1,))
    del columns["timeouts"]
    path = write(tmp_path / "old.h5", columns)
    data = load_dataset(str(path), max_episode_steps=4)
    assert data.obs[:, 0].tolist() == [0, 1, 2, 3, 4, 6, 7, 8, 10], "steps 2-5 and 6-9 are full episodes"
    assert data.obs[data.truncated, 0].tolist() == [4, 8]
    assert len(load_dataset(str(path))) == 11


def test_d4rl_takes_columns_of_width_one_and_float_flags(tmp_path: Path) -> None:
    columns = d4rl()
    columns |= {
        "rewards": columns["rewards"][:, None].astype(np.float64),
        "terminals": columns["terminals"][:, None] * 1.0,
    }
    equal(
        read_d4rl(write(tmp_path / "a.hdf5", columns, compression="gzip")),
        read_d4rl(write(tmp_path / "b.hdf5", d4rl())),
    )


def test_antmaze_rows_that_are_both_are_dropped_like_other_timeouts(tmp_path: Path) -> None:
    data = read_d4rl(write(tmp_path / "maze.hdf5", d4rl(8, terminals=(2, 5), timeouts=(2, 6))))
    assert data.obs[:, 0].tolist() == [0, 1, 3, 4, 5]
    assert data.obs[data.terminated, 0].tolist() == [5]
    assert data.obs[data.truncated, 0].tolist() == [1]


def test_the_file_is_not_changed(tmp_path: Path) -> None:
    path = write(tmp_path / "x.hdf5", d4rl())
    before = path.read_bytes()
    path.chmod(0o444)
    load_dataset(str(path))
    assert path.read_bytes() == before


# --- actions


def test_actions_are_scaled_as_the_environment_unscales_them(tmp_path: Path) -> None:
    space = gym.spaces.Box(np.array([-2, 0, -np.inf], np.float32), np.array([2, 10, 5], np.float32))
    columns = d4rl(3, (), ())
    columns["actions"] = np.array([[-2, 0, -70], [0.5, 7.5, 5], [2, 10, 0]], np.float32)
    path = write(tmp_path / "x.hdf5", columns)
    data = load_dataset(str(path), action=THREE, action_low=space.low, action_high=space.high)
    np.testing.assert_allclose(data.action, [[-1, -1, -70], [0.25, 0.5, 5]], rtol=0, atol=1e-7)
    np.testing.assert_allclose(action_translator(space, 2)(data.action), columns["actions"][:2], rtol=1e-6)


def test_rounding_beyond_a_bound_is_clipped(tmp_path: Path) -> None:
    columns = d4rl(3, (), ())
    columns["actions"] += np.float32(1.00001)
    assert load_dataset(str(write(tmp_path / "x.hdf5", columns))).action.max() == 1.0


def test_discrete_actions_become_int64(tmp_path: Path) -> None:
    columns = d4rl(3, (), ()) | {"actions": np.array([[2.0], [0.0], [1.0]], np.float32)}
    path = write(tmp_path / "x.hdf5", columns)
    data = load_dataset(str(path), action=ActionSpec("discrete", (3,)))
    assert (data.action.tolist(), data.action.dtype, data.action.shape) == ([2, 0], np.int64, (2,))
    for spec, text in (
        (ActionSpec("discrete", (2,)), "row 0 is 2.0: the choices are 0 to 1"),
        (THREE, "takes 3 numbers"),
    ):
        with pytest.raises(ConfigError, match=text):
            load_dataset(str(path), action=spec)


# --- broken files


def with_value(key: str, index: Any, value: Any) -> Callable[[Path], None]:
    def break_it(path: Path) -> None:
        columns = d4rl(size=11)
        columns[key] = columns[key].astype(np.float64 if isinstance(value, float) else columns[key].dtype)
        columns[key][index] = value
        write(path, columns)

    return break_it


def with_columns(*without: str, **columns: Any) -> Callable[[Path], None]:
    def break_it(path: Path) -> None:
        write(path, {key: column for key, column in (d4rl(size=11) | columns).items() if key not in without})

    return break_it


def cut_short(path: Path) -> None:
    write(path, d4rl(200, size=11))
    path.write_bytes(path.read_bytes()[:6000])


def web_page(path: Path) -> None:
    path.write_bytes(b"<!DOCTYPE html><html>404</html>")


def external_link(path: Path) -> None:
    write(path.with_name("secret.h5"), {"observations": np.zeros((7, 11))})
    with_columns("observations")(path)
    with h5py.File(path, "a") as file:
        file["observations"] = h5py.ExternalLink("secret.h5", "/observations")


def virtual(path: Path) -> None:
    source = write(path.with_name("secret.h5"), {"observations": np.zeros((7, 11))})
    with_columns("observations")(path)
    with h5py.File(path, "a") as file:
        layout = h5py.VirtualLayout((7, 11), np.float64)
        layout[:] = h5py.VirtualSource(source, "observations", (7, 11))
        file.create_virtual_dataset("observations", layout)


def external_storage(path: Path) -> None:
    path.with_name("secret.bin").write_bytes(b"0" * 7 * 11 * 4)
    with_columns("observations")(path)
    with h5py.File(path, "a") as file:
        file.create_dataset("observations", (7, 11), np.float32, external=[(b"secret.bin", 0, 7 * 11 * 4)])


def bomb(path: Path) -> None:
    with_columns("observations")(path)
    with h5py.File(path, "a") as file:
        file.create_dataset("observations", (10**12, 11), np.float32, chunks=(1024, 11))


def minari_file(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_group("episode_0")


BROKEN = {
    "missing keys": (
        with_columns("terminals", "rewards"),
        "missing rewards, terminals.\nFound: actions, next_observations",
    ),
    "no rewards of a Minari file": (minari_file, "Found: episode_0. Expected: observations"),
    "NaN": (with_value("observations", (4, 3), np.nan), "observations row 4 is nan"),
    "infinite": (with_value("rewards", 6, np.inf), "rewards row 6 is inf"),
    "finite only in float64": (with_value("rewards", 2, 1e300), "rewards row 2 is inf"),
    "shorter column": (with_columns(rewards=np.zeros(6)), "rewards has 6 rows where 7 are expected"),
    "two rewards": (with_columns(rewards=np.zeros((7, 2))), "rewards has shape (7, 2): one number per row"),
    "action out of bounds": (
        with_value("actions", (3, 1), 1.7),
        "actions row 3 is 1.7 in dimension 1, outside -1 to 1",
    ),
    "both flags": (with_value("terminals", 5, True), "terminals and timeouts are both set in row 5"),
    "flag of 2": (with_value("timeouts", 3, 2.0), "timeouts row 3 is 2.0"),
    "another env": (
        with_columns(observations=np.zeros((7, 17))),
        "has 17 numbers per step, and the environment gives 11",
    ),
    "another body": (
        with_columns(actions=np.zeros((7, 6))),
        "actions has 6 numbers per step, and the environment takes 3",
    ),
    "images": (
        with_columns(observations=np.zeros((7, 8, 8, 3), np.uint8)),
        "observations has shape (8, 8, 3) per step",
    ),
    "text": (with_columns(actions=np.array([b"left"] * 7)), "actions holds |S4, and not numbers"),
    "a group": (with_columns("rewards", **{"rewards/all": np.zeros(7)}), "rewards is a group"),
    "one row": (with_columns(observations=np.zeros((1, 11))), "holds 1 steps: a transition needs two"),
    "one number": (with_columns(observations=np.float32(1)), "holds 0 steps"),
    "cut short": (cut_short, "is cut short or damaged"),
    "not HDF5": (web_page, "is not an HDF5 file.\nIt begins with b'<!DOCTYPE html>"),
    "link": (external_link, "observations is a link to somewhere else"),
    "virtual": (virtual, "the numbers of observations are kept in another file"),
    "external storage": (external_storage, "observations are kept in another file"),
    "declared size": (bomb, "declares shape (1000000000000, 11), far more than the file can hold"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_named_with_key_and_row(case: str, tmp_path: Path) -> None:
    break_it, message = BROKEN[case]
    path = tmp_path / "hopper.hdf5"
    break_it(path)
    with pytest.raises(ConfigError) as caught:
        load_dataset(str(path), HOPPER, THREE)
    assert message in str(caught.value), str(caught.value)
    assert str(path) in caught.value.what and "\n" not in caught.value.what, caught.value.what
    assert caught.value.why or caught.value.fix, caught.value.what


def test_every_broken_file_has_its_own_message(tmp_path: Path) -> None:
    seen: dict[str, str] = {}
    cases = {case: break_it for case, (break_it, _) in BROKEN.items() if case != "external storage"}  # as "virtual"
    for number, (case, break_it) in enumerate(cases.items()):
        path = tmp_path / str(number) / "hopper.hdf5"
        path.parent.mkdir()
        break_it(path)
        with pytest.raises(ConfigError) as caught:
            load_dataset(str(path), HOPPER, THREE)
        text = str(caught.value).replace(str(path), "")
        assert text not in seen, (case, seen[text], text)
        seen[text] = case
    assert len(seen) >= 12, seen


def test_the_unbroken_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "hopper.hdf5"
    with_columns()(path)
    assert len(load_dataset(str(path), HOPPER, THREE)) == 5


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_bytes_give_a_dataset_or_one_of_our_errors(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "x.hdf5"
    content = bytearray(write(path, d4rl()).read_bytes())
    for position in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=8)):
        content[position] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        assert 1 <= len(load_dataset(str(path))) <= 6
    except UserError as error:
        assert str(path) in error.what


def test_h5py_is_only_needed_for_hdf5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "x.hdf5", d4rl())
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtraError, match=r'pip install "rl-training\[minari\]"'):
        load_dataset(str(path))


# --- our own format


@st.composite
def datasets(draw: st.DrawFn) -> Dataset:
    count = draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))

    def leaf(image: bool) -> np.ndarray:
        if image:
            return rng.integers(0, 256, (count + 1, 40, 40, 3)).astype(np.uint8)
        return rng.normal(size=(count + 1, 3)).astype(np.float32)

    kind = draw(st.sampled_from(["vector", "image", "dict"]))
    leaves = {"a": leaf(False), "a.b": leaf(True)} if kind == "dict" else {"": leaf(kind == "image")}
    discrete = draw(st.booleans())
    action = rng.integers(0, 4, count) if discrete else rng.uniform(-1, 1, (count, 2)).astype(np.float32)
    ends = rng.integers(0, 4, count)
    ends[-1] = rng.integers(1, 3)
    obs, next_obs = ({key: a[rows] for key, a in leaves.items()} for rows in (slice(count), slice(1, None)))
    return Dataset(
        obs=obs if kind == "dict" else obs[""],
        action=action,
        reward=rng.normal(size=count).astype(np.float32),
        terminated=ends == 1,
        truncated=ends == 2,
        next_obs=next_obs if kind == "dict" else next_obs[""],
        name="Name é",
        sha256="",
        source="test",
        env_id=draw(st.none() | st.just("CartPole-v1")),
    )


@settings(max_examples=25, deadline=None)
@given(dataset=datasets())
def test_our_own_format_gives_everything_back(tmp_path_factory: pytest.TempPathFactory, dataset: Dataset) -> None:
    folder = tmp_path_factory.mktemp("native") / "new" / "data"
    write_dataset(dataset, folder, made={"run": "runs/x", "seed": 3})
    loaded = load_dataset(str(folder))
    equal(dataset, loaded)
    assert (loaded.name, loaded.env_id, loaded.source) == (dataset.name, dataset.env_id, str(folder))
    manifest = json.loads((folder / "dataset.json").read_text())
    assert loaded.sha256 == sha256(folder / "data.safetensors") == manifest["sha256"]["data.safetensors"]
    assert (manifest["rows"], manifest["episodes"]) == (len(dataset), len(dataset.episode_starts()))
    assert manifest["made"] == {"run": "runs/x", "seed": 3}
    assert sorted(p.name for p in folder.parent.iterdir()) == ["data"], "no temporary folder stays behind"


def native(folder: Path, **changes: Any) -> Path:
    columns = {"obs": np.zeros((4, 11), np.float32), "next_obs": np.ones((4, 11), np.float32)}
    columns |= {"action": np.zeros((4, 3), np.float32), "reward": np.arange(4, dtype=np.float32)}
    columns |= {"terminated": np.zeros(4, np.bool_), "truncated": np.zeros(4, np.bool_)}
    write_dataset(Dataset(**columns, name="n", sha256="", source="", env_id="Hopper-v5"), folder)
    if changes:
        tensors = load_file(folder / "data.safetensors") | changes
        save_file({k: v for k, v in tensors.items() if v is not None}, folder / "data.safetensors")
        change_manifest(folder, sha256={"data.safetensors": sha256(folder / "data.safetensors")})
    return folder


def change_manifest(folder: Path, **changes: Any) -> None:
    path = folder / "dataset.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_writing_never_overwrites_and_leaves_nothing_when_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    native(tmp_path / "a")
    with pytest.raises(ConfigError, match="exists already"):
        native(tmp_path / "a")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="exists already"):
        native(tmp_path / "empty")

    def full(name: str, path: Path) -> None:
        if path.name == "dataset.json":
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(_atomic, "operation", full)
    with pytest.raises(StorageError, match="No space left"):
        native(tmp_path / "b")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "empty"]


def test_what_cannot_be_read_is_not_written(tmp_path: Path) -> None:
    bad = native(tmp_path / "a") and read_dataset(tmp_path / "a")
    bad.obs[2, 1] = np.nan
    with pytest.raises(ConfigError, match="dataset n: obs row 2 is nan"):
        write_dataset(bad, tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_both_flags_are_written_as_a_termination(tmp_path: Path) -> None:
    data = read_dataset(native(tmp_path / "a"))
    data.terminated[3] = data.truncated[3] = True
    write_dataset(data, tmp_path / "b")
    loaded = read_dataset(tmp_path / "b")
    assert (loaded.terminated[3], loaded.truncated[3]) == (True, False)


def flip_a_bit(folder: Path) -> None:
    data = bytearray((native(folder) / "data.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "data.safetensors").write_bytes(data)


def remove_data(folder: Path) -> None:
    (native(folder) / "data.safetensors").unlink()


def bad_header(folder: Path) -> None:
    (native(folder) / "data.safetensors").write_bytes(b"\xff" * 64)
    change_manifest(folder, sha256={"data.safetensors": sha256(folder / "data.safetensors")})


def plain_folder(folder: Path) -> None:
    folder.mkdir()
    (folder / "notes.txt").touch()


def manifest_text(text: str) -> Callable[[Path], None]:
    return lambda folder: (native(folder) / "dataset.json").write_text(text) and None


FLAGS = np.array([False, False, True, False])
BROKEN_FOLDERS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no manifest": (plain_folder, "is not a dataset: it has no dataset.json.\nIt holds: notes.txt"),
    "manifest text": (manifest_text("{"), "dataset.json is damaged.\nJSONDecodeError"),
    "manifest keys": (manifest_text('{"format": 1}'), "KeyError: 'name'"),
    "manifest types": (lambda f: change_manifest(native(f), name=3), "name, env_id or sha256 has the wrong type"),
    "deep manifest": (manifest_text("[" * 200_000), "dataset.json is damaged.\nRecursionError"),
    "huge manifest": (manifest_text(" " * (1 << 20) + "{}"), "larger than 1 MiB"),
    "newer": (lambda f: change_manifest(native(f), format=9), "has format 9; this version reads up to 1"),
    "changed bit": (flip_a_bit, "its hash differs"),
    "no data": (remove_data, "data.safetensors is damaged or missing"),
    "bad header": (bad_header, "data.safetensors is damaged.\n"),
    "missing key": (lambda f: native(f, reward=None), "Found: action, next_obs, obs, terminated"),
    "extra key": (lambda f: native(f, **{"infos.x": np.zeros(4)}), "Found: action, infos, next_obs"),
    "NaN": (lambda f: native(f, reward=np.array([0, np.nan, 0, 0], np.float32)), "reward row 1 is nan"),
    "both flags": (lambda f: native(f, terminated=FLAGS, truncated=FLAGS), "are both set in row 2"),
    "another env": (lambda f: native(f, obs=np.zeros((4, 17), np.float32)), "(Hopper-v5): obs has 17 numbers per step"),
    "successor": (lambda f: native(f, next_obs=np.zeros((3, 11), np.float32)), "next_obs has 3 rows where 4"),
    "unscaled": (
        lambda f: native(f, action=np.full((4, 3), 2, np.float32)),
        "action row 0 is 2 in dimension 0, outside",
    ),
    "empty": (lambda f: native(f, reward=np.zeros(0, np.float32)), "holds no transitions"),
    "dict": (
        lambda f: native(f, obs=None, **{"obs.a": np.zeros((4, 11), np.float32)}),
        "obs has keys a, and the environment gives one array",
    ),
}


@pytest.mark.parametrize("case", BROKEN_FOLDERS)
def test_broken_folders_are_named(case: str, tmp_path: Path) -> None:
    break_it, message = BROKEN_FOLDERS[case]
    break_it(tmp_path / "mine")
    with pytest.raises(ConfigError) as caught:
        load_dataset(str(tmp_path / "mine"), HOPPER, THREE, [-2.0] * 3, [2.0] * 3)
    assert message in str(caught.value), str(caught.value)
    assert str(tmp_path / "mine") in caught.value.what, caught.value.what


def test_dict_observations_must_have_the_keys_of_the_environment(tmp_path: Path) -> None:
    native(tmp_path / "a", obs=None, **{"obs.x": np.zeros((4, 2), np.float32)}, next_obs=None)
    spec = ObsSpec((Leaf("x", (2,), "float32"), Leaf("y", (1,), "float32")))
    tensors = {"next_obs.x": np.zeros((4, 2), np.float32)}
    native(tmp_path / "b", obs=None, next_obs=None, **{"obs.x": np.zeros((4, 2), np.float32)} | tensors)
    with pytest.raises(ConfigError, match="obs has keys x, and the environment gives keys x, y"):
        load_dataset(str(tmp_path / "b"), spec)
    only_x = load_dataset(str(tmp_path / "b"), ObsSpec((Leaf("x", (2,), "float32"),)))
    assert list(only_x.obs) == ["x"]


# --- Minari


@pytest.fixture
def minari_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return tmp_path


@settings(max_examples=12, deadline=None)
@given(dataset=datasets())
def test_minari_gives_everything_back(tmp_path_factory: pytest.TempPathFactory, dataset: Dataset) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(tmp_path_factory.mktemp("minari")))
        # Minari stores each inner observation once, so successors of a recording are what it can give back.
        discrete = ActionSpec("discrete", (4,)) if dataset.action.ndim == 1 else None
        write_minari(dataset, "made/by-test-v0", discrete)
        loaded = load_dataset("minari:made/by-test-v0")
        equal(dataset, loaded)
        assert (loaded.name, loaded.source) == ("made/by-test-v0", "minari:made/by-test-v0")
        assert loaded.sha256 == load_dataset("minari:made/by-test-v0").sha256
        with pytest.raises(ConfigError, match="exists already"):
            write_minari(dataset, "made/by-test-v0", discrete)


def make_minari(env_space: gym.Space[Any], action_space: gym.Space[Any], episodes: list[Columns], name: str) -> None:
    import minari
    from minari.data_collector import EpisodeBuffer

    buffers = [EpisodeBuffer(**{"infos": {}} | episode) for episode in episodes]
    spec = gym.spec("Pendulum-v1")
    with pytest.warns(UserWarning):
        stored = minari.create_dataset_from_buffers(
            name, buffers, observation_space=env_space, action_space=action_space
        )
    metadata = Path(stored.storage.data_path) / "metadata.json"
    metadata.write_text(json.dumps(json.loads(metadata.read_text()) | {"env_spec": spec.to_json()}))


def pendulum(steps: int, terminations: list[int], truncations: list[int], start: float = 0.0) -> Columns:
    rows = np.arange(steps)
    return {
        "observations": (start + np.arange(steps + 1.0))[:, None],
        "actions": np.full((steps, 1), 1.0, np.float32),
        "rewards": rows * 1.0,
        "terminations": np.isin(rows, terminations),
        "truncations": np.isin(rows, truncations),
    }


BOX = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
TORQUE = gym.spaces.Box(-2.0, 2.0, (1,), np.float32)


def test_minari_keeps_every_step_with_its_true_successor(minari_root: Path) -> None:
    episodes = [pendulum(3, [], [2]), pendulum(2, [1], [1], start=10), pendulum(2, [], [], start=20)]
    make_minari(BOX, TORQUE, episodes, "pendulum/mixed-v0")
    data = load_dataset("minari:pendulum/mixed-v0")
    assert data.obs[:, 0].tolist() == [0, 1, 2, 10, 11, 20, 21]
    assert data.next_obs[:, 0].tolist() == [1, 2, 3, 11, 12, 21, 22]
    assert np.flatnonzero(data.terminated).tolist() == [4], "both flags: a termination"
    assert np.flatnonzero(data.truncated).tolist() == [2, 6], "an episode without an end was cut"
    assert data.action.ravel().tolist() == [0.5] * 7, "1 of the dataset's own -2 to 2"
    assert (data.obs.dtype, data.reward.dtype, data.env_id) == (np.float32, np.float32, "Pendulum-v1")
    wider = read_minari("pendulum/mixed-v0", Expected(action_low=[-4.0], action_high=[4.0]))
    assert wider.action[0, 0] == 0.25, "the caller's bounds come first: the policy acts through them"


def test_minari_translates_nested_and_discrete_spaces(minari_root: Path) -> None:
    space = gym.spaces.Dict({"goal": gym.spaces.Dict({"xy": BOX}), "room": gym.spaces.Discrete(3, start=1)})
    episode = pendulum(2, [1], [])
    episode["observations"] = {"goal": {"xy": episode["observations"]}, "room": np.array([1, 2, 3])}
    episode["actions"] = np.array([5, 6])
    make_minari(space, gym.spaces.Discrete(2, start=5), [episode], "rooms/x-v0")
    data = load_dataset("minari:rooms/x-v0", action=ActionSpec("discrete", (2,)))
    assert sorted(data.obs) == ["goal.xy", "room"]
    assert data.next_obs["room"].tolist() == [[0, 1, 0], [0, 0, 1]]
    assert (data.action.tolist(), data.action.dtype) == ([0, 1], np.int64)


def metadata_without_spaces(folder: Path) -> None:
    path = folder / "metadata.json"
    metadata = json.loads(path.read_text())
    spec = json.loads(metadata["env_spec"]) | {"entry_point": "os:abort"}
    del metadata["observation_space"]
    path.write_text(json.dumps(metadata | {"env_spec": json.dumps(spec)}))


def minari_link(folder: Path) -> None:
    with h5py.File(folder / "main_data.hdf5", "a") as file:
        file["episode_0/secret"] = h5py.ExternalLink("other.h5", "/x")


def minari_values(key: str, values: Any) -> Callable[[Path], None]:
    def break_it(folder: Path) -> None:
        with h5py.File(folder / "main_data.hdf5", "a") as file:
            del file[f"episode_1/{key}"]
            if values is not None:
                file[f"episode_1/{key}"] = values

    return break_it


def cut_minari(folder: Path) -> None:
    path = folder / "main_data.hdf5"
    path.write_bytes(path.read_bytes()[:3000])


BROKEN_MINARI: dict[str, tuple[Callable[[Path], Any], str]] = {
    "would run code": (metadata_without_spaces, "does not say the observation and action space"),
    "metadata": (lambda f: (f / "metadata.json").write_text("{"), "metadata.json is damaged"),
    "link": (minari_link, "episode_0/secret is a link to somewhere else"),
    "cut short": (cut_minari, "is cut short or damaged"),
    "no rewards": (minari_values("rewards", None), "minari:pend/x-v0 is damaged"),
    "NaN": (minari_values("rewards", [0.0, np.nan]), "minari:pend/x-v0 episode 1: rewards row 1 is nan"),
    "observations": (minari_values("observations", np.zeros((2, 1))), "observations has 2 rows where 3 are expected"),
    "actions": (minari_values("actions", np.full((2, 1), 9.0)), "actions row 0 is 9 in dimension 0, outside -2 to 2"),
}


@pytest.mark.parametrize("case", BROKEN_MINARI)
def test_broken_minari_datasets_are_named(case: str, minari_root: Path) -> None:
    break_it, message = BROKEN_MINARI[case]
    make_minari(BOX, TORQUE, [pendulum(2, [1], []), pendulum(2, [1], [])], "pend/x-v0")
    break_it(minari_root / "pend/x-v0/data")
    with pytest.raises(ConfigError) as caught:
        load_dataset("minari:pend/x-v0")
    assert message in str(caught.value), str(caught.value)


def test_minari_of_another_environment_and_missing_ones(minari_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_minari(BOX, TORQUE, [pendulum(2, [1], [])], "pendulum/x-v0")
    with pytest.raises(ConfigError, match="observations has 1 number per step, and the environment gives 11 numbers"):
        load_dataset("minari:pendulum/x-v0", HOPPER, THREE)
    with pytest.raises(ConfigError, match="actions are continuous, and the environment takes discrete ones"):
        load_dataset("minari:pendulum/x-v0", action=ActionSpec("discrete", (2,)))
    with pytest.raises(ConfigError, match=r"no Minari dataset pendulun/x-v0(.|\n)*Did you mean pendulum/x-v0"):
        load_dataset("minari:pendulun/x-v0")
    assert sorted(p.name for p in minari_root.iterdir()) == ["pendulum"], "looking for a dataset makes no folders"
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(MissingExtraError, match=r'pip install "rl-training\[minari\]"'):
        load_dataset("minari:pendulum/x-v0")


@pytest.mark.parametrize("name", ["x-v0", "x", "", "../../etc-v0", "a b-v0", "a/x-v"])
def test_minari_names_are_checked_first(name: str, minari_root: Path) -> None:
    data = read_dataset(native(minari_root / "native"))
    if name == "x-v0":
        write_minari(data, name)
        assert load_dataset(f"minari:{name}").reward.tolist() == [0, 1, 2, 3]
        return
    for act in (lambda: write_minari(data, name), lambda: load_dataset(f"minari:{name}")):
        with pytest.raises(ConfigError, match="is not a name that Minari can use"):
            act()
    assert [p.name for p in minari_root.iterdir()] == ["native"]
