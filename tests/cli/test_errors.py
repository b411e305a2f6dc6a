"""Every mistake gives one message with the next thing to type, an exit code that is not 0, and no traceback."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from in_process import TINY, Outcome, Run

from rl_training.algorithms import REGISTRY, find
from rl_training.cli.app import main

BAD_YAML = """\
algo: ppo
env_id: CartPole-v1
algorithm:
  learning_rat: 0.1
  gamma: 1.5
model:
  hidden: wide
"""
ENVS = """\
import gymnasium as gym
import numpy as np


class NanEnv(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(2, np.float32), float("nan") if self.steps == 5 else 1.0, False, self.steps >= 20, {}
"""


def online(actions: str) -> str:
    """The algorithms that learn such actions without stored data, as an error lists them."""
    return ", ".join(name for name, entry in REGISTRY.items() if actions in entry.actions and not entry.needs_data)


def having(setting: str) -> str:
    """The algorithms with a setting, as an error lists them."""
    return ", ".join(name for name in REGISTRY if hasattr(find(name).config_class, setting))


MISTAKES: dict[str, tuple[str, str]] = {
    "unknown command": ("trian", "Unknown command 'trian'. Did you mean train?\nHelp: rl-training --help\n"),
    "unknown environment": (
        "train ppo CartPol-v1",
        "Unknown environment 'CartPol-v1'. Did you mean CartPole-v1? List: rl-training list envs --like cart\n",
    ),
    "unknown algorithm": (
        "train pppo CartPole-v1",
        "Unknown algorithm 'pppo'. Did you mean ppo?\nList: rl-training list algos\n",
    ),
    "no environment": (
        "train ppo --seed 1",
        "Name the environment first, then the settings.\nWrite: rl-training train ppo CartPole-v1 --seed 3\n",
    ),
    "names after settings": (
        "train --seed 1 ppo CartPole-v1",
        "Name the algorithm and environment first, then the settings.\n"
        "Write: rl-training train ppo CartPole-v1 --seed 3\n",
    ),
    "one name too many": (
        "train ppo CartPole-v1 100",
        "'100' is one name too many.\nWrite: rl-training train ALGO ENV --setting value\n",
    ),
    "unknown setting": (
        "train ppo CartPole-v1 --learning-rat 1e-3",
        "unknown setting '--learning-rat' for ppo. Did you mean --learning-rate?\n",
    ),
    "setting of another algorithm": (
        "train ppo CartPole-v1 --tau 0.1",
        f"'--tau' belongs to {having('tau')}; ppo has no such setting\n",
    ),
    "setting without a value": ("train ppo CartPole-v1 --seed", "--seed needs a value\n"),
    "wrong keys and values in a file": (
        "train --config bad.yaml",
        "bad.yaml:4:3 unknown key 'learning_rat' under algorithm (ppo). Did you mean learning_rate?\n"
        "bad.yaml:5:3 gamma = 1.5 is outside 0..1\n"
        'bad.yaml:7:3 hidden = "wide" is text; expected a list\n',
    ),
    "the same, checked first": (
        "config validate bad.yaml",
        "bad.yaml:4:3 unknown key 'learning_rat' under algorithm (ppo). Did you mean learning_rate?\n"
        "bad.yaml:5:3 gamma = 1.5 is outside 0..1\n"
        'bad.yaml:7:3 hidden = "wide" is text; expected a list\n',
    ),
    "no such file": ("train --config bat.yaml", "bat.yaml does not exist.\nDid you mean bad.yaml?\n"),
    "--config without a file": (
        "train ppo CartPole-v1 --config",
        "--config needs a file.\nWrite: rl-training train --config my.yaml\n",
    ),
    "wrong type": ("train ppo CartPole-v1 --seed abc", '--seed = "abc" is text; expected a whole number\n'),
    "out of range": ("train ppo CartPole-v1 --gamma 1.5", "--gamma = 1.5 is outside 0..1\n"),
    "continuous algorithm on discrete actions": (
        "train sac CartPole-v1",
        f"sac needs continuous actions; CartPole-v1 has Discrete(2).\nWorks here: {online('discrete')}.\n"
        "Try: rl-training train dqn CartPole-v1\n",
    ),
    "discrete algorithm on continuous actions": (
        "train dqn Pendulum-v1",
        "dqn needs discrete actions; Pendulum-v1 has Box(-2.0, 2.0, (1,), float32).\n"
        f"Works here: {online('continuous')}.\nTry: rl-training train sac Pendulum-v1\n",
    ),
    "old version": (
        "train ppo LunarLander-v2",
        "LunarLander-v2 was replaced by LunarLander-v3 (scores are not comparable).\nUse LunarLander-v3\n",
    ),
    "offline algorithm without data": (
        "train td3_bc Pendulum-v1",
        "td3_bc is to learn from stored data, but no dataset is named.\n"
        "Name it with --dataset PATH, and say how long to learn from it with --offline-updates N\n",
    ),
    "an on-policy algorithm with data": (
        "train trpo CartPole-v1 --dataset data",
        "trpo learns from its own fresh rollouts; it cannot use a dataset.\n"
        f"These can: {having('batch_size')}.\nDrop dataset\n",
    ),
    "minibatches that do not divide": (
        "train ppo CartPole-v1 --num-envs 8 --num-steps 32 --minibatches 7",
        "num_steps x num_envs = 256 rows do not divide into 7 minibatches.\n"
        "Nearest for algorithm.minibatches: 2, 4, 8\n",
    ),
    "no run": (
        "resume nothing",
        "No run at 'nothing'.\nThere are no runs in runs.\nStart one with: rl-training train ppo CartPole-v1\n",
    ),
    "no run to evaluate": (
        "eval nothing",
        "No run at 'nothing'.\nThere are no runs in runs.\nStart one with: rl-training train ppo CartPole-v1\n",
    ),
    "misspelt option": (
        "eval x --episods 3",
        "rl-training eval: unrecognized arguments: --episods 3. Did you mean --episodes?\n"
        "Help: rl-training eval --help\n",
    ),
    "option out of range": (
        "eval x --episodes 0",
        "rl-training eval: argument --episodes: '0' is too small: give 1 or more.\nHelp: rl-training eval --help\n",
    ),
    "unknown environment to check": (
        "check-env Foo-v0",
        "Unknown environment 'Foo-v0'. List: rl-training list envs --like foo\n",
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bad.yaml").write_text(BAD_YAML)
    (tmp_path / "my_env.py").write_text(ENVS)
    return tmp_path


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_answered_before_anything_is_made(mistake: str, cli: Run, folder: Path) -> None:
    command, message = MISTAKES[mistake]
    outcome = cli(*command.split())
    assert (outcome.code, outcome.err) == (2, message)
    assert not (folder / "runs").exists(), "a refused command left a run directory"


@pytest.mark.skipif(importlib.util.find_spec("ale_py") is not None, reason="the Atari extra is installed")
def test_missing_extra(cli: Run) -> None:
    outcome = cli("train", "ppo", "ALE/Pong-v5")
    assert outcome == Outcome(
        2, outcome.out, "'ALE/Pong-v5' needs the atari extra.\n" + 'Fix: pip install "rl-training[atari]"\n'
    )


def test_nan_from_the_environment_stops_before_learning(cli: Run, folder: Path) -> None:
    outcome = cli("train", "ppo", "file:my_env.py:NanEnv", *TINY)
    lines = outcome.err.splitlines()
    assert outcome.code == 6, outcome
    assert lines[0] == "The environment returned nan in reward of env 0 at env step 10."
    assert "Traceback" not in outcome.err
    (made,) = folder.glob("runs/*")
    assert lines[2] == "Look at the environment with: rl-training check-env file:my_env.py:NanEnv", lines
    assert lines[3].startswith("The steps that led there: "), lines
    failure = json.loads((made / "failures" / "0.json").read_text())
    assert (failure["env"], failure["env_step"]) == (0, 10), failure
    assert len(failure["reward"]) == 5 and len(failure["obs"]) == 5, failure
    info = json.loads((made / "run.json").read_text())
    assert (info["status"], info["exit_code"]) == ("failed", 6), info
    assert cli("config", "show", made).code == 0, "the run cannot be read"


def test_finished_run(cli: Run, tiny_run: Path) -> None:
    outcome = cli("resume", tiny_run)
    assert outcome == Outcome(
        2,
        "",
        "This run finished at 256 of 256 steps.\n"
        "More: rl-training resume runs/ppo__CartPole-v1__seed0__STAMP --total-steps 512\n",
    )


def test_resume_with_a_changed_setting(cli: Run, tiny_run: Path) -> None:
    outcome = cli("resume", tiny_run, "--gamma", "0.5")
    gamma = json.loads((tiny_run / "config_origin.json").read_text())["algorithm.gamma"]
    assert gamma.startswith("preset "), f"this test needs another setting than gamma: {gamma}"
    assert outcome == Outcome(
        2,
        "",
        "algorithm.gamma cannot change on resume.\nChanged: algorithm.gamma: 0.98 -> 0.5\n"
        "Start a new run instead: rl-training train --config runs/ppo__CartPole-v1__seed0__STAMP/config.yaml "
        "--algorithm.gamma 0.5\n",
    )


def test_unknown_setting_on_resume(cli: Run, tiny_run: Path) -> None:
    outcome = cli("resume", tiny_run, "--total-step", "512")
    assert outcome == Outcome(2, "", "unknown setting '--total-step' for ppo. Did you mean --total-steps?\n")


def test_misspelt_run(cli: Run, tiny_run: Path) -> None:
    name = tiny_run.name
    outcome = cli("eval", name.replace("CartPole", "CartPol"))
    assert outcome.code == 2, outcome
    assert outcome.err.splitlines()[1:] == [
        "Nearest: runs/ppo__CartPole-v1__seed0__STAMP (finished, 256 steps)",
        "Did you mean runs/ppo__CartPole-v1__seed0__STAMP?",
    ]


def test_damaged_checkpoint_is_passed_over_and_named(cli: Run, tiny_run: Path) -> None:
    newest = max(tiny_run.glob("checkpoints/step_*"))
    victim = newest / "learner.safetensors"
    data = bytearray(victim.read_bytes())
    data[-1] ^= 1
    victim.write_bytes(data)
    outcome = cli("resume", tiny_run, "--total-steps", "320")
    assert outcome.code == 0, outcome
    assert "step_256 is damaged (learner.safetensors: hash differs), using step_192" in outcome.out.splitlines()


def test_no_valid_checkpoint(cli: Run, tiny_run: Path) -> None:
    for manifest in tiny_run.glob("checkpoints/*/manifest.json"):
        manifest.write_text("{}")
    outcome = cli("eval", tiny_run)
    assert outcome.code == 4, outcome
    lines = outcome.err.splitlines()
    assert lines[0] == "No valid checkpoint in runs/ppo__CartPole-v1__seed0__STAMP."
    assert lines[1].startswith("step_256 is damaged (manifest.json: hash differs); step_192 is damaged"), lines
    assert lines[2] == "List the runs with: rl-training list runs"


def test_a_run_in_use_is_refused(cli: Run, tiny_run: Path) -> None:
    code = (
        "import pathlib, sys, rl_training.experiment.lock as lock\n"
        "with lock.RunLock(pathlib.Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    arguments = [sys.executable, "-c", code, str(tiny_run)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        outcome = cli("resume", tiny_run, "--total-steps", "512")
        holder.communicate()
    assert outcome.code == 5, outcome
    first = outcome.err.splitlines()[0]
    prefix = f"runs/ppo__CartPole-v1__seed0__STAMP is in use by pid {holder.pid} on host "
    assert first.startswith(prefix) and first.endswith(" since TIME."), outcome.err
    assert "Traceback" not in outcome.err


def test_debug_shows_where_it_happened(cli: Run) -> None:
    outcome = cli("train", "ppo", "CartPol-v1", "--debug")
    assert outcome.code == 2, outcome
    assert "Traceback" in outcome.err and "Did you mean CartPole-v1?" in outcome.err, outcome.err


def test_an_error_of_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(root: Path) -> list[str]:
        raise ZeroDivisionError

    monkeypatch.setattr("rl_training.cli.listing._LISTS", {"runs": broken})
    with pytest.raises(ZeroDivisionError):
        main(["list", "runs"])
