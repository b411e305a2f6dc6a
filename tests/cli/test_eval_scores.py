"""Normalized scores of `rl-training eval`: for tasks that have reference returns, and only for those."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from in_process import Run

from rl_training import SAC
from rl_training.cli.evaluate import score_reference

pytest.importorskip("mujoco")


def test_eval_prints_and_stores_the_score(cli: Run, tmp_path: Path) -> None:
    SAC("Hopper-v5", hidden=(8,)).save(tmp_path / "agent")
    outcome = cli("eval", "agent", "--episodes", 2)
    assert outcome.code == 0, outcome
    summary = json.loads((tmp_path / "agent" / "eval" / "summary.json").read_text())
    score = 100 * (summary["mean"] + 20.272305) / (3234.3 + 20.272305)
    assert summary["normalized_score"] == pytest.approx(score)
    note = "D4RL's constants of hopper: -20.2723 to 3234.3, measured on v2 bodies"
    assert summary["normalized_by"] == {"task": "hopper", "random": -20.272305, "expert": 3234.3, "note": note}
    assert outcome.out.splitlines()[-2] == f"normalized score {score:.1f}   ({note})", outcome.out


def test_the_dataset_of_a_run_may_have_what_its_environment_has_not(cli: Run, tiny_run: Path) -> None:
    agent = SAC("Pendulum-v1", hidden=(8,))
    assert score_reference(agent) is None
    for data, task in (("x/hopper/pen-human-v1.hdf5", "pen"), ("minari:D4RL/door/human-v2", "door"), ("hopper/mine", None)):
        agent.config = dataclasses.replace(agent.config, dataset=data)
        found = score_reference(agent)
        assert (None if found is None else found.task) == task, data
    assert "normalized" not in cli("eval", tiny_run, "--episodes", 1).out
    assert "normalized_score" not in json.loads((tiny_run / "eval" / "summary.json").read_text())
