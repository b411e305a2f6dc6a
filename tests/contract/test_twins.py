"""For every algorithm a deliberately broken twin fails at least one test; unbroken, these tests pass."""

from __future__ import annotations

from pathlib import Path

import pytest
from twins import TESTS_FAILED, TWINS, Twin, verdict

from rl_training.algorithms import REGISTRY


def test_every_algorithm_has_a_broken_twin() -> None:
    assert {twin.algorithm for twin in TWINS} == set(REGISTRY)


@pytest.mark.parametrize("twin", TWINS, ids=str)
def test_a_broken_twin_is_caught(twin: Twin, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    code = verdict(twin, twin.tests, log)
    assert code == TESTS_FAILED, f"pytest ended with {code}: {twin.tests} does not see that it {twin.fault}\n{log.read_text()}"


def test_a_twin_that_is_not_broken_passes(tmp_path: Path) -> None:
    assert verdict(None, "objectives/test_categorical.py", tmp_path / "log.txt") == 0, (tmp_path / "log.txt").read_text()
