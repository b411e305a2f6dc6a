"""`rl-training data convert`: the three layouts, in all directions."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import h5py
import numpy as np
import pytest
from in_process import Run

from rl_training.data.dataset import Dataset, load_dataset
from rl_training.data.formats.d4rl import read_d4rl
from rl_training.data.formats.native import write_dataset


@pytest.fixture(autouse=True)
def minari_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


def same(a: Dataset, b: Dataset) -> None:
    for key, column in a.columns().items():
        assert column.dtype == b.columns()[key].dtype, key
        np.testing.assert_allclose(column, b.columns()[key], atol=1e-6 if key == "action" else 0, err_msg=key)
    assert (a.env_id, a.env_id) == (b.env_id, "Pendulum-v1")


def test_all_directions_keep_every_step(cli: Run) -> None:
    policies = ["--policy", "scripted", "--policy", "random"]
    assert cli("data", "record", "--env", "Pendulum-v1", *policies, "--steps", 450, "--out", "ours").code == 0
    chain = ["ours", "a.hdf5", "minari:pendulum/b-v0", "c", "minari:pendulum/d-v0", "e.h5", "f"]
    for source, target in pairwise(chain):
        env = ["--env", "Pendulum-v1"] if source.endswith(("hdf5", "h5")) else []
        outcome = cli("data", "convert", source, target, *env)
        assert (outcome.code, outcome.err) == (0, ""), (source, target, outcome)
        assert f"written  {target}   450 steps in 4 episodes" in outcome.out, outcome.out
    for name in ("minari:pendulum/b-v0", "c", "minari:pendulum/d-v0", "f"):
        same(load_dataset("ours"), load_dataset(name))
    with h5py.File("a.hdf5") as file:
        assert np.abs(file["actions"]).max() > 1.5, "in the environment's own units"
    made = json.loads(Path("c/dataset.json").read_text())["made"]
    assert made["converted"] == "minari:pendulum/b-v0" and made["command"].endswith("data convert minari:pendulum/b-v0 c"), made


def test_notes_say_what_d4rl_leaves_out(cli: Run) -> None:
    assert cli("data", "record", "--env", "Pendulum-v1", "--policy", "random", "--steps", 450, "--out", "ours").code == 0
    written = cli("data", "convert", "ours", "a.hdf5").out
    assert "note     D4RL's own reading leaves out the 3 rows with a timeout; the file has them all" in written, written
    bare = ("action", "rewards", "observations", "terminals", "timeouts")
    with h5py.File("a.hdf5") as file, h5py.File("b.hdf5", "w") as without:
        for key in file:
            if key.startswith(bare):
                without[key] = file[key][...]
    outcome = cli("data", "convert", "b.hdf5", "b", "--env", "Pendulum-v1")
    assert outcome.code == 0 and "so rows with a timeout are left out" in outcome.out, outcome
    assert len(load_dataset("b")) == 447 and len(read_d4rl(Path("a.hdf5"), keep_timeouts=True, **bounds())) == 450


def bounds() -> dict[str, object]:
    from rl_training.data.formats import Expected

    return {"expected": Expected(action_low=-2.0, action_high=2.0)}


def test_a_gap_inside_an_episode_is_not_lost_silently(cli: Run) -> None:
    obs = np.arange(4, dtype=np.float32)[:, None]
    zeros = np.zeros(4, np.bool_)
    data = Dataset(obs, obs * 0, obs[:, 0], zeros, zeros, obs + 1.5, name="gap", sha256="", source="")
    write_dataset(data, "gap")
    outcome = cli("data", "convert", "gap", "minari:x/gap-v0")
    assert outcome.code == 2 and "gap: next_obs of row 0 is not the obs of the next row" in outcome.err, outcome
    assert "rl-training data inspect gap --repair OUT" in outcome.err


def test_mistakes(cli: Run) -> None:
    assert cli("data", "record", "--env", "Pendulum-v1", "--policy", "random", "--steps", 10, "--out", "ours").code == 0
    for target in ("ours", "minari:bad name", "ours/../ours"):
        outcome = cli("data", "convert", "ours", target)
        assert outcome.code == 2 and "Traceback" not in outcome.err, outcome
    assert cli("data", "convert", "our", "x").err.splitlines()[-1] == "Did you mean ours?"
    other = cli("data", "convert", "ours", "x", "--env", "CartPole-v1")
    assert other.code == 2 and "obs has 3 numbers per step, and the environment gives 4 numbers" in other.err, other
    assert not Path("x").exists()
