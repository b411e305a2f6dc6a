"""A run killed with SIGKILL anywhere and resumed ends bit for bit like the run that was never killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Point, Reference, Runner, Trial, kill_often, make_reference, run_plainly
from outcome import run_inside
from scenarios import SCENARIOS

References = Callable[[str], Reference]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_killed_run_ends_like_one_that_was_not(
    scenario: str, run: Runner, reference: References, workspace: Path, kills: int
) -> None:
    tally = kill_often(run, reference(scenario), workspace, kills, seed=0)
    assert tally.equal == tally.kills == kills, "\n\n".join(tally.failures)
    assert tally.inside >= kills // 2, f"only {tally.inside} of {kills} kills came inside a checkpoint write"


def test_a_run_may_be_killed_again_while_it_resumes(
    run: Runner, reference: References, workspace: Path, kills: int
) -> None:
    tally = kill_often(run, reference("dqn"), workspace, kills, seed=1, per_run=4)
    assert tally.equal == kills, "\n\n".join(tally.failures)


def test_any_write_of_a_checkpoint_may_be_the_last(
    run: Runner, reference: References, workspace: Path, kills: int
) -> None:
    """Goes through the writes of the last checkpoint in order, removal of an older one included; all with --kills 20."""
    unkilled = reference("ppo")
    saving = [number for number, (_, _, inside, _) in enumerate(unkilled.trace, start=1) if inside]
    first = max(number for number in saving if number - 1 not in saving)
    writes = [number for number in saving if number >= first]
    assert len(writes) > 30, f"the last checkpoint takes only {len(writes)} writes"
    for number in writes[:: max(1, len(writes) // (3 * kills))]:
        trial = Trial(unkilled, [Point(op=number)], workspace / "each-write").run(run)
        assert trial.equal, trial.report()


def test_tensorboard_keeps_what_was_logged_before_two_kills(run: Runner, workspace: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    settings = {"tensorboard": True, "logging_every": 800, "eval_every": 500}
    unkilled = make_reference(run, "ppo", workspace, settings, "tensorboard")
    published = {file: n for n, (name, file, *_) in enumerate(unkilled.trace, 1) if name == "rename"}
    # The first resume (from 640) saves 768 before it logs anything, and dies in 896: the second one starts from 768.
    start, middle, end = (published[f"step_{step:09d}"] for step in (640, 768, 896))
    points = [Point(op=middle - 1), Point(op=end - start)]
    trial = Trial(unkilled, points, workspace / "tensorboard", settings=settings).run(run)
    assert trial.equal and len(trial.killed_at) == 2, trial.report()
    run_dir = run_inside(trial.folder)
    written = [json.loads(row)["step"] for row in (run_dir / "evaluations.jsonl").read_text().splitlines()]
    events = EventAccumulator(str(run_dir / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("eval/mean_reward")] == written


def test_it_also_holds_without_the_fork_server(run: Runner, reference: References, workspace: Path) -> None:
    unkilled = reference("sac")
    middle = unkilled.first_checkpoint + (len(unkilled.trace) - unkilled.first_checkpoint) // 2
    trial = Trial(unkilled, [Point(op=middle)], workspace / "plain").run(run_plainly)
    assert trial.killed_at == [middle], trial.killed_at
    assert trial.equal, trial.report()
