"""Running commands in this process, in an empty folder, with tiny runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from in_process import TINY, Outcome, Run, normal

from rl_training.cli import main


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`cli("train", "ppo", ...)` runs a command in the empty folder `tmp_path`."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> Outcome:
        capsys.readouterr()
        code = main([str(word) for word in words])
        printed = capsys.readouterr()
        return Outcome(code, normal(printed.out, tmp_path), normal(printed.err, tmp_path))

    return run


@pytest.fixture
def tiny_run(cli: Run, tmp_path: Path) -> Path:
    """A finished run of 256 steps with a checkpoint every 64."""
    outcome = cli("train", "ppo", "CartPole-v1", *TINY, "--checkpoint.every=64", "--checkpoint.keep=9")
    assert outcome.code == 0, outcome
    (found,) = tmp_path.glob("runs/*")
    return found.relative_to(tmp_path)
