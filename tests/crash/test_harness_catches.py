"""The comparison itself: a resume that forgets one piece of state must be noticed, whichever it is.

Not here: a missing fsync, which a kill cannot show (the kernel survives it), and a missing hash check, which needs damage on
disk.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from harness import Point, Reference, Runner, Trial
from mutants import MUTANTS

# What a badly written mutant would raise; a mutant is only caught when the comparison, or a message of the package, shows it.
OWN_MISTAKES = ("AttributeError", "ImportError", "AssertionError", "NameError")


@pytest.fixture(scope="module")
def killed(run: Runner, reference: Callable[[str], Reference], workspace: Path) -> Callable[[str], Trial]:
    """A run of a scenario that was killed half-way, made once; `copy_of` it can be resumed."""
    made: dict[str, Trial] = {}

    def get(scenario: str) -> Trial:
        if scenario not in made:
            unkilled = reference(scenario)
            published = [n for n, (name, file, *_) in enumerate(unkilled.trace, 1) if (name, file[:5]) == ("rename", "step_")]
            point = Point(op=published[5])  # before it gets its name: the fifth is the newest, and rows were written since
            made[scenario] = Trial(unkilled, [point], workspace / f"half-way-{scenario}").start(run)
        return made[scenario]

    return get


def copy_of(trial: Trial, folder: Path) -> Trial:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(trial.folder, folder)
    return replace(trial, folder=folder, killed_at=list(trial.killed_at))


@pytest.mark.parametrize("scenario", sorted({scenario for scenario, _ in MUTANTS.values()}))
def test_without_a_fault_nothing_is_reported(
    scenario: str, run: Runner, killed: Callable[[str], Trial], workspace: Path
) -> None:
    trial = copy_of(killed(scenario), workspace / "faultless").finish(run)
    assert trial.equal, trial.report()


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_fault_is_noticed(mutant: str, run: Runner, killed: Callable[[str], Trial], workspace: Path) -> None:
    trial = copy_of(killed(MUTANTS[mutant][0]), workspace / "mutant").finish(run, mutant)
    assert not trial.equal, f"a resume that forgets {mutant} ends like the run that was never killed"
    assert not any(mistake in problem for problem in trial.problems for mistake in OWN_MISTAKES), trial.problems
