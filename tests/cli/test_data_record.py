"""`rl-training data record`: who acts, for how many steps, and what the dataset says about it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from in_process import TINY, Run

from rl_training.cli.policies import parse, steps_of
from rl_training.data.dataset import load_dataset

POLICY = """\
import numpy as np

def act(obs):
    return np.array([0.5], np.float32)

def broken(obs):
    return obs["angle"]
"""


def test_record_mixes_sources_and_says_what_it_did(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(POLICY)
    words = ["data", "record", "--env", "Pendulum-v1", "--policy", "scripted,share=0.5", "--policy", "random,noise=0.1"]
    words += ["--policy", "file:mine.py:act", "--steps", "800", "--seed", "3", "--out"]
    outcome = cli(*words, "new/data")
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0].split() == ["policy", "steps", "episodes", "mean", "return"]
    assert [line.split()[:3] for line in lines[1:4]] == [
        ["scripted,share=0.5", "400", "2"],
        ["random,noise=0.1", "200", "1"],
        ["file:mine.py:act", "200", "1"],
    ], lines
    assert lines[4:] == [
        "written  new/data   800 steps in 4 episodes",
        "  next   rl-training data inspect new/data",
        "         rl-training train iql Pendulum-v1 --dataset new/data --offline-updates 100000",
    ]
    data = load_dataset("new/data")
    assert (len(data), data.env_id) == (800, "Pendulum-v1")
    assert np.unique(data.action[600:]).tolist() == [0.25], "0.5 of -2 to 2"
    made = json.loads((tmp_path / "new/data/dataset.json").read_text())["made"]
    assert made["command"] == "rl-training " + " ".join([*words, "new/data"])
    assert (made["seed"], made["versions"]["rl-training"] != "", len(made["date"])) == (3, True, 25)
    returns = data.episode_returns()
    means = [row["mean_return"] for row in made["sources"]]
    assert means == pytest.approx([returns[:2].mean(), returns[2], returns[3]], rel=1e-5)
    assert cli(*words, "again").code == 0
    assert load_dataset("again").sha256 == data.sha256, "a seed decides everything"


def test_record_takes_runs_checkpoints_and_saved_agents(cli: Run, tiny_run: Path, tmp_path: Path) -> None:
    from rl_training import PPO

    PPO.load(tiny_run).save(tmp_path / "kept")
    policies = [tiny_run, f"{tiny_run / 'checkpoints' / 'step_000000128'},greedy", "kept,noise=0.5"]
    words = [word for policy in policies for word in ("--policy", policy)]
    outcome = cli("data", "record", "--env", "CartPole-v1", *words, "--steps", 120, "--out", "data")
    assert outcome.code == 0, outcome
    sources = json.loads(Path("data/dataset.json").read_text())["made"]["sources"]
    assert [Path(row["checkpoint"]).name for row in sources] == ["step_000000256", "step_000000128", "step_000000000"]
    agent, data = PPO.load(tiny_run / "checkpoints" / "step_000000128"), load_dataset("data")
    np.testing.assert_array_equal(agent.predict(data.obs[40:80]), data.action[40:80])
    assert (agent.predict(data.obs[80:]) != data.action[80:]).any(), "half of these are random"


def test_record_takes_the_replay_of_a_run(cli: Run) -> None:
    small = ["--total-steps=128", "--learning-starts=64", "--model.hidden=8", "--evaluation.num-episodes=0"]
    assert cli("train", "dqn", "CartPole-v1", *small, "--logging.tensorboard=false", "--output-dir=r").code == 0
    (run,) = Path("r").iterdir()
    outcome = cli("data", "record", "--env", "CartPole-v1", "--policy", f"{run},replay", "--steps", 1_000, "--out", "data")
    assert outcome.code == 0, outcome
    assert len(load_dataset("data")) == 128, "all that there are"
    assert f"{run},replay".replace(run.name[-16:], "STAMP") in outcome.out.splitlines()[1], outcome.out


MISTAKES = {
    "unknown subcommand": ("recrod", "Unknown command 'data recrod'. Did you mean record?\nHelp: rl-training data --help\n"),
    "no policy": (
        "record --env CartPole-v1 --steps 9 --out x",
        "rl-training data record: the following arguments are required: --policy.\nHelp: rl-training data record --help\n",
    ),
    "unknown option": (
        "record --env CartPole-v1 --policy random,shar=0.5 --steps 9 --out x",
        "--policy random,shar=0.5: unknown option 'shar=0.5'. Did you mean share?\n"
        "Options: share=S, noise=P, greedy, replay\n",
    ),
    "no number": (
        "record --env CartPole-v1 --policy random,share=half --steps 9 --out x",
        "--policy random,share=half: share = 'half' is not a number from 0 to 1.\nWrite for example share=0.5\n",
    ),
    "greedy random": (
        "record --env CartPole-v1 --policy random,greedy --steps 9 --out x",
        "--policy random,greedy: greedy is for trained agents, which random is not.\nLeave out ,greedy\n",
    ),
    "shares": (
        "record --env CartPole-v1 --policy random,share=0.5 --policy scripted,share=0.6 --steps 9 --out x",
        "The shares add up to 1.1.\nThey are parts of --steps, so together they make 1.\n"
        "Mend the shares, or leave them out: then all are equal\n",
    ),
    "too few steps": (
        "record --env CartPole-v1 --policy random --policy random,share=0.99 --steps 9 --out x",
        "--policy random would take none of 9 steps.\nGive more --steps\n",
    ),
    "unknown policy": (
        "record --env CartPole-v1 --policy scriptd --steps 9 --out x",
        "--policy scriptd: No run at 'scriptd'. Did you mean scripted?\nThere are no runs in runs.\n"
        "Start one with: rl-training train ppo CartPole-v1\n",
    ),
    "no controller": (
        "record --env Acrobot-v1 --policy scripted --steps 9 --out x",
        "There is no scripted controller for Acrobot-v1.\n"
        "There is one for Pendulum-v1, MountainCarContinuous-v0, CartPole-v1.\n"
        "Write your own and name it: --policy file:my_policy.py:act\n",
    ),
    "unknown environment": (
        "record --env CartPol-v1 --policy random --steps 9 --out x",
        "Unknown environment 'CartPol-v1'. Did you mean CartPole-v1? List: rl-training list envs --like cart\n",
    ),
    "folder in use": (
        "record --env CartPole-v1 --policy random --steps 9 --out .",
        ". exists already.\nNothing is overwritten.\nChoose another name, or remove it.\n",
    ),
    "no such function": (
        "record --env Pendulum-v1 --policy file:mine.py:atc --steps 9 --out x",
        "'file:mine.py:atc': mine.py has no function 'atc'. Did you mean act?\nFunctions it has: act, broken\n",
    ),
    "a function that fails": (
        "record --env Pendulum-v1 --policy file:mine.py:broken --steps 9 --out x",
        "file:mine.py:broken failed: IndexError: only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and "
        'integer or boolean arrays are valid indices\nAt TMP/mine.py:7: return obs["angle"]\n'
        "It is called with one observation, as datasets hold them, and returns one action.\n",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_answered_before_anything_is_made(mistake: str, cli: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(POLICY)
    command, message = MISTAKES[mistake]
    outcome = cli("data", *command.split())
    assert (outcome.code, outcome.err) == (2, message)
    assert not (tmp_path / "x").exists()


def test_an_agent_of_another_environment_is_refused(cli: Run, tiny_run: Path) -> None:
    outcome = cli("data", "record", "--env", "Pendulum-v1", "--policy", tiny_run, "--steps", 9, "--out", "x")
    assert outcome.code == 2 and "was trained on CartPole-v1, whose spaces are not those of Pendulum-v1" in outcome.err, outcome
    assert outcome.err.endswith("Use --env CartPole-v1\n"), outcome


def test_agents_act_in_the_environment_as_they_knew_it(cli: Run) -> None:
    (Path("my.yaml")).write_text("algo: ppo\nenv_id: Pendulum-v1\nenv: {kwargs: {g: 0.5}}\n")
    assert cli("train", "--config", "my.yaml", *TINY, "--output-dir=r").code == 0
    (run,) = Path("r").iterdir()
    assert cli("data", "record", "--env", "Pendulum-v1", "--policy", run, "--steps", 50, "--out", "light").code == 0
    data = load_dataset("light")
    speed, sine, torque = data.obs[:, 2], data.obs[:, 1], 2.0 * data.action[:, 0]
    change = np.clip(speed + 0.05 * (1.5 * 0.5 * sine + 3.0 * torque), -8, 8)
    np.testing.assert_allclose(data.next_obs[:, 2], change, atol=1e-4, err_msg="gravity is not 0.5")
    assert np.abs(data.action).max() == 1.0, "PPO asks for more than the torque there is"


def test_shares() -> None:
    def split(*texts: str, total: int = 10) -> list[int]:
        return steps_of([parse(text) for text in texts], total)

    assert split("random") == [10]
    assert split("random", "scripted", "a") == [3, 4, 3]
    assert split("random,share=0.2", "scripted", "a") == [2, 4, 4]
    assert split("random,share=0.29", "a,share=0.71", total=100) == [29, 71]
