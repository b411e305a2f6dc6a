"""A checkpoint of every format version ever released stays here, and must load and play as it did when it was made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rl_training import PPO

FOLDERS = sorted(path for path in Path(__file__).parent.glob("format_v*") if path.is_dir())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_an_old_checkpoint_plays_as_it_did(folder: Path) -> None:
    recorded = json.loads((folder / "played.json").read_text())
    agent = PPO.load(folder)
    assert agent.predict([[0.0, 0.1, 0.02, -0.1], [0.0, -0.1, -0.02, 0.1]]).tolist() == recorded["actions"]
    assert agent.evaluate(5).mean == pytest.approx(recorded["mean"], rel=0.02), recorded


def test_there_is_one() -> None:
    assert [path.name for path in FOLDERS] == ["format_v1"]
