"""`rl-training rank`: the order of checkpoints by stored data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from in_process import Run

SMALL = ["--model.hidden=8,8", "--evaluation.num-episodes=1", "--logging.tensorboard=false"]


@pytest.fixture
def trained(cli: Run, tmp_path: Path) -> Path:
    """A run from stored data with three checkpoints."""
    assert cli("data", "record", "--env", "Pendulum-v1", "--policy", "scripted", "--steps", "400", "--out", "data").code == 0
    saves = ["--checkpoint.every", 20, "--checkpoint.keep", 9]
    outcome = cli("train", "iql", "Pendulum-v1", "--dataset", "data", "--offline-updates", 60, *saves, *SMALL)  # fmt: skip
    assert outcome.code == 0, outcome
    (found,) = tmp_path.glob("runs/*")
    return found.relative_to(tmp_path)


@pytest.mark.parametrize("method", ["fqe", "td"])
def test_checkpoints_are_ordered_and_compared_with_their_returns(method: str, trained: Path, cli: Run) -> None:
    outcome = cli("rank", trained, "--method", method, "--updates", 30, "--play", 2)
    assert (outcome.code, outcome.err) == (0, ""), outcome
    report = json.loads((trained / "eval" / f"rank-{method}.json").read_text())
    rows = report["checkpoints"]
    assert [row["checkpoint"] for row in rows] == ["step_20", "step_40", "step_60"]
    best = max(rows, key=lambda row: float(row["judged"]))["checkpoint"]
    assert f"best by {method}: {best}" in outcome.out
    assert f"rank correlation with the returns: {report['rank_correlation']:.2f}" in outcome.out


def test_one_checkpoint_leaves_nothing_to_choose(cli: Run, tmp_path: Path) -> None:
    cli("data", "record", "--env", "Pendulum-v1", "--policy", "random", "--steps", "300", "--out", "data")
    cli("train", "iql", "Pendulum-v1", "--dataset", "data", "--offline-updates", 5, *SMALL)
    (found,) = tmp_path.glob("runs/*")
    outcome = cli("rank", found)
    assert outcome.code == 2
    assert "has 1 checkpoint: there is nothing to choose from" in outcome.err and "--checkpoint.keep" in outcome.err


def test_a_run_without_data_asks_for_some(tiny_run: Path, cli: Run) -> None:
    outcome = cli("rank", tiny_run)
    assert outcome.code == 2 and "--dataset" in outcome.err
