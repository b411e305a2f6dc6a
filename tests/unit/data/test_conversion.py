"""Nothing is lost from one layout to the next, and what D4RL's reading leaves out is known exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from test_formats import datasets, equal

from rl_training.data.dataset import Dataset, load_dataset
from rl_training.data.formats import Expected
from rl_training.data.formats.d4rl import read_d4rl
from rl_training.data.formats.d4rl_writer import write_d4rl
from rl_training.data.formats.minari_writer import write_minari
from rl_training.errors import ConfigError
from rl_training.specs import ActionSpec

TORQUE = gym.spaces.Box(-2.0, 2.0, (1,), np.float32)


def seven() -> Dataset:
    """Observations 0 to 6, an end at row 2 and a time limit at row 5; each successor is a half more, to be told apart."""
    obs = np.arange(7, dtype=np.float32)[:, None]
    return Dataset(
        obs=obs, action=np.linspace(-1, 1, 7, dtype=np.float32)[:, None], reward=np.arange(7, dtype=np.float32),
        terminated=np.arange(7) == 2, truncated=np.arange(7) == 5, next_obs=obs + 0.5, name="seven", sha256="", source="seven",
        env_id="Pendulum-v1",
    )  # fmt: skip


def test_d4rl_keeps_every_row_and_its_own_reading_leaves_out_two(tmp_path: Path) -> None:
    path = tmp_path / "new" / "seven.hdf5"
    write_d4rl(seven(), path)
    equal(seven(), read_d4rl(path, keep_timeouts=True))
    standard = load_dataset(str(path))
    assert standard.obs[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert standard.next_obs[:, 0].tolist() == [1, 2, 3, 4, 5]
    assert standard.terminated.astype(int).tolist() == [0, 0, 1, 0, 0]
    with pytest.raises(ConfigError, match="exists already"):
        write_d4rl(seven(), path)


def test_d4rl_holds_actions_in_the_units_of_the_environment(tmp_path: Path) -> None:
    write_d4rl(seven(), tmp_path / "x.h5", TORQUE)
    with h5py.File(tmp_path / "x.h5") as file:
        np.testing.assert_allclose(file["actions"][:, 0], np.linspace(-2, 2, 7), atol=1e-6)
        assert {key: file[key].dtype.name for key in file} == {
            "observations": "float32", "actions": "float32", "rewards": "float32", "terminals": "bool", "timeouts": "bool",
            "next_observations": "float32",
        }  # fmt: skip
    back = read_d4rl(tmp_path / "x.h5", Expected(action_low=TORQUE.low, action_high=TORQUE.high), keep_timeouts=True)
    np.testing.assert_allclose(back.action, seven().action, atol=1e-6)


@settings(max_examples=12, deadline=None)
@given(dataset=datasets())
def test_d4rl_gives_everything_back_that_it_can_hold(tmp_path_factory: pytest.TempPathFactory, dataset: Dataset) -> None:
    path = tmp_path_factory.mktemp("d4rl") / "x.hdf5"
    if isinstance(dataset.obs, dict):
        with pytest.raises(ConfigError, match=r"D4RL's files hold one array(.|\n)*minari:NAME"):
            write_d4rl(dataset, path)
        assert not path.exists()
    elif len(dataset) > 1:
        write_d4rl(dataset, path)
        discrete = Expected(action=ActionSpec("discrete", (4,))) if dataset.action.ndim == 1 else None
        equal(dataset, read_d4rl(path, discrete, keep_timeouts=True))


def test_minari_notes_the_environment_and_its_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import minari

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    obs = np.random.default_rng(0).normal(size=(7, 1)).astype(np.float32)
    six: dict[str, Any] = {key: column[:6] for key, column in seven().columns().items()}
    data = Dataset(**six | {"obs": obs[:-1], "next_obs": obs[1:]}, name="six", sha256="", source="six", env_id="Pendulum-v1")
    write_minari(data, "made/six-v0", ActionSpec("continuous", dim=1), TORQUE)
    stored = minari.load_dataset("made/six-v0")
    assert stored.action_space == TORQUE and stored.env_spec.id == "Pendulum-v1"
    np.testing.assert_allclose(stored[0].actions[:, 0], np.linspace(-2, 2, 7)[:3], atol=1e-6)
    back = load_dataset("minari:made/six-v0")
    assert len(back) == 6 and back.truncated.tolist() == [False] * 5 + [True], "the row of the timeout is kept"
    assert (back.env_id, back.terminated.tolist()) == ("Pendulum-v1", data.terminated.tolist())
    np.testing.assert_array_equal(back.obs, data.obs)
    np.testing.assert_array_equal(back.next_obs, data.next_obs)
    np.testing.assert_allclose(back.action, data.action, atol=1e-6)
