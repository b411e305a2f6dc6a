"""`rl-training data inspect`: the numbers of a dataset, its findings, and a repaired copy."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
from in_process import Run

from rl_training.data.dataset import load_dataset


def recorded(cli: Run) -> None:
    policies = ["--policy", "scripted", "--policy", "random"]
    assert cli("data", "record", "--env", "Pendulum-v1", *policies, "--steps", "500", "--out", "data").code == 0


def pendulum_file(path: Path) -> None:
    """Two episodes of 200 steps in D4RL's layout, in the environment's own units."""
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(401, 3)).astype(np.float32)
    with h5py.File(path, "w") as file:
        file["observations"], file["next_observations"] = obs[:-1], obs[1:]
        file["actions"], file["rewards"] = rng.uniform(-2, 2, (400, 1)), rng.normal(size=400)
        file["terminals"], file["timeouts"] = np.zeros(400, bool), np.arange(400) % 200 == 199


def test_inspect_prints_what_there_is(cli: Run) -> None:
    recorded(cli)
    outcome = cli("data", "inspect", "data")
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    data = load_dataset("data")
    assert lines[0] == f"data   of Pendulum-v1   sha256 {data.sha256[:12]}"
    assert "rows      500" in lines and "  next_obs    float32[3]" in lines
    assert "episodes  4: 0 ended by the task, 2 at the time limit (200 steps), 2 cut, 0 without an end" in lines
    assert "  length  min 50, quartiles 50 / 125 / 200, max 200   mean 125.0" in lines
    returns = data.episode_returns()
    assert any(line.startswith(f"  return  min {returns.min():,.1f}, ") for line in lines), outcome.out
    assert lines[-1] == "findings: none"


def test_inspect_scores_d4rl_tasks(cli: Run, tmp_path: Path) -> None:
    pendulum_file(tmp_path / "halfcheetah-x-v2.hdf5")
    outcome = cli("data", "inspect", "halfcheetah-x-v2.hdf5", "--env", "Pendulum-v1")
    assert outcome.code == 0 and "normalized score" not in outcome.out, "the environment named comes first"
    assert "note      398 of these 400 rows" not in outcome.out
    assert "note      398 of these rows are learned from: D4RL's reading leaves out the row of every timeout" in outcome.out
    with h5py.File("halfcheetah-x-v2.hdf5", "a") as file:
        file["actions"][...] /= 2
    plain = cli("data", "inspect", "halfcheetah-x-v2.hdf5").out
    assert "an environment it does not name" in plain
    assert "(D4RL's constants of halfcheetah: -280.179 to 12135)" in plain, plain


def test_what_cannot_be_learned_from_is_named_and_mended(cli: Run, tmp_path: Path) -> None:
    pendulum_file(tmp_path / "bad.hdf5")
    with h5py.File("bad.hdf5", "a") as file:
        file["rewards"][3] = np.nan
        file["terminals"][399] = True
    before = (tmp_path / "bad.hdf5").read_bytes()
    outcome = cli("data", "inspect", "bad.hdf5", "--env", "Pendulum-v1")
    assert outcome.code == 1, outcome
    lines = outcome.out.splitlines()
    assert lines[lines.index("findings") :] == [
        "findings",
        "  ERROR  reward is NaN or infinite in row 3",
        "         one makes every weight NaN: --repair OUT drops their episodes",
        "  ERROR  terminated and truncated are both set in row 399",
        "         an end has no value after it, a cut has: --repair OUT keeps the end",
        "  ERROR  it cannot be loaded:",
        "         bad.hdf5: rewards row 3 is nan.",
        "         One such value makes every weight NaN.",
        "         Leave out the episode that it belongs to, and write the dataset again.",
    ]
    outcome = cli("data", "inspect", "bad.hdf5", "--env", "Pendulum-v1", "--repair", "good")
    assert outcome.code == 0, outcome
    assert outcome.out.splitlines()[-5:] == [
        "repaired",
        "  cleared truncated where terminated is set as well: 1 row",
        "  dropped 1 episode of 2 with NaN or infinity (200 rows)",
        "written   good   200 of 400 rows; bad.hdf5 is as it was",
        "  next    rl-training data inspect good",
    ]
    assert (tmp_path / "bad.hdf5").read_bytes() == before
    made = json.loads(Path("good/dataset.json").read_text())["made"]
    assert made["repaired"] == "bad.hdf5" and len(made["did"]) == 2, made
    assert cli("data", "inspect", "good", "--env", "Pendulum-v1").out.splitlines()[-1] == "findings: none"


def test_nothing_to_repair_writes_nothing(cli: Run) -> None:
    recorded(cli)
    outcome = cli("data", "inspect", "data", "--repair", "again")
    assert outcome.code == 0 and "there was nothing to repair" in outcome.out and not Path("again").exists()


def test_data_that_are_not_whole_give_the_readers_message(cli: Run, tmp_path: Path) -> None:
    pendulum_file(tmp_path / "cut.hdf5")
    Path("cut.hdf5").write_bytes(Path("cut.hdf5").read_bytes()[:3000])
    outcome = cli("data", "inspect", "cut.hdf5")
    assert outcome.code == 2 and outcome.err.startswith("cut.hdf5 is cut short or damaged.\n"), outcome
    missing = cli("data", "inspect", "cut.hdf")
    assert missing.code == 2 and "Did you mean cut.hdf5?" in missing.err, missing
    recorded(cli)
    other = cli("data", "inspect", "data", "--env", "CartPole-v1")
    assert other.code == 1 and "obs has 3 numbers per step, and the environment gives 4 numbers" in other.out, other
    used = cli("data", "inspect", "data", "--repair", "data")
    assert used.code == 2 and used.err.startswith("data exists already."), used


def test_an_environment_that_is_not_here_is_no_obstacle(cli: Run) -> None:
    recorded(cli)
    path = Path("data/dataset.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"env_id": "Elsewhere-v3"}))
    outcome = cli("data", "inspect", "data")
    assert outcome.code == 0 and "Elsewhere-v3 cannot be made here" in outcome.out, outcome


def test_data_do_not_decide_which_code_runs(cli: Run) -> None:
    recorded(cli)
    Path("trap.py").write_text("open('sprung', 'w')\nmake = None\n")
    path = Path("data/dataset.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"env_id": "file:trap.py:make"}))
    for words in (["inspect", "data"], ["convert", "data", "copy"]):
        outcome = cli("data", *words)
        assert outcome.code == 0 and "runs only when you name it: --env file:trap.py:make" in outcome.out, outcome
    assert not Path("sprung").exists()
