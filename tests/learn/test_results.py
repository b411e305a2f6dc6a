"""The stored learning results meet their bars by the numbers of each seed, and the README shows just these numbers."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def learning() -> ModuleType:
    spec = importlib.util.spec_from_file_location("learning", ROOT / "benchmarks" / "learning.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("task", learning().TASKS)
def test_the_bar_is_met_by_the_seeds_as_stored(task: str) -> None:
    module = learning()
    result = json.loads((module.RESULTS / f"{task.replace('/', '__')}.json").read_text())
    rows, contract = result["seeds"], module.TASKS[task]
    assert [row["seed"] for row in rows] == list(range(contract.seeds)) and len(rows) >= 3, "every seed stored, at least three"
    promised = (result["bar"], result["rule"], result.get("measure", "return"), result.get("control"))
    assert promised == (contract.score, contract.rule, contract.measure, contract.control), "a bar that was moved needs new runs"
    assert module.verdict(task, rows) and result["passed"], [row["best"] for row in rows]
    assert result["versions"]["torch"] and result["date"] and result["command"].startswith("python benchmarks/learning.py")


def test_readme_and_overview_show_what_is_stored() -> None:
    command = [sys.executable, ROOT / "benchmarks" / "tables.py", "--check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}run: python benchmarks/tables.py"


def test_a_control_that_scores_too_well_breaks_a_contract() -> None:
    module = learning()
    task = "sac/rl_training/PointReach-v0"
    assert module.TASKS[task].control == {"settings": {"relabel": None}, "at_most": 0.1}
    rows = [{"best": 1.0, "control": control} for control in (0.0, 0.1, 0.05)]
    assert module.verdict(task, rows)
    assert not module.verdict(task, [*rows[:2], {"best": 1.0, "control": 0.2}])
    assert not module.verdict(task, [row | {"best": 0.9} for row in rows])
