"""Looking on never changes what is learned, and equal runs are equal: across processes and ways of stepping environments."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import Reference, Runner, fork_server, make_reference
from outcome import Outcome, differences, read_outcome, run_inside, state_of
from scenarios import SCENARIOS

References = Callable[[str], Reference]

# What training consists of; the rest of a checkpoint is about logs, evaluations and sums since the last row of metrics.
TRAINING = re.compile("(learner/algorithm|learner/updates|buffer|collector|rng)(/.*)?")

WATCHERS: dict[str, dict[str, Any]] = {
    "never evaluated": {"num_episodes": 0},
    "evaluated more often": {"eval_every": 100, "num_episodes": 3, "evaluation_deterministic": False},
    "logged more often": {"logging_every": 7, "tensorboard": True},
    "saved more often": {"checkpoint_every": 50, "keep": 1},
    "saved at the end only": {"checkpoint_every": 0},
}


def training_state(outcome: Outcome) -> Outcome:
    return {key: value for key, value in outcome.items() if TRAINING.fullmatch(key)}


def variant(run: Runner, scenario: str, workspace: Path, settings: dict[str, Any], name: str) -> Outcome:
    name = f"{scenario}-{name}".replace(" ", "-")
    return make_reference(run, scenario, workspace, settings, name).outcome


@pytest.mark.parametrize("watcher", WATCHERS)
@pytest.mark.parametrize("scenario", ["ppo", "dqn", "sac"])
def test_looking_on_changes_nothing(
    scenario: str, watcher: str, run: Runner, reference: References, workspace: Path
) -> None:
    expected = training_state(reference(scenario).outcome)
    weights = [key for key in expected if key.startswith("learner/algorithm/")]
    assert len(weights) > 10, weights
    found = training_state(variant(run, scenario, workspace, WATCHERS[watcher], watcher))
    assert differences(expected, found) == []


@pytest.mark.parametrize("scenario", ["ppo", "sac"])
def test_another_seed_changes_the_result(scenario: str, run: Runner, reference: References, workspace: Path) -> None:
    """Or else the tests of this file could not fail."""
    found = variant(run, scenario, workspace, {"seed": 4}, "other seed")
    changed = " ".join(differences(training_state(reference(scenario).outcome), training_state(found)))
    for part in ("learner/algorithm/policy", "exp_avg", "collector/obs", "buffer/rng", "rng/torch"):
        assert part in changed, f"{part} is the same under another seed"


def test_the_same_seed_gives_the_same_run_in_another_process(reference: References, tmp_path: Path) -> None:
    """The server of the references has PYTHONHASHSEED=0."""
    with fork_server(PYTHONHASHSEED="1") as other:
        for scenario in SCENARIOS:
            found = make_reference(other, scenario, tmp_path).outcome
            assert differences(reference(scenario).outcome, found) == [], scenario


@pytest.mark.parametrize(
    ("scenario", "backend"), [("ppo", "sync"), ("ppo", "async"), ("dqn", "async"), ("dqn", "native"), ("td3", "native")]
)
def test_the_way_of_stepping_does_not_matter(
    scenario: str, backend: str, run: Runner, reference: References, workspace: Path
) -> None:
    def comparable(outcome: Outcome) -> Outcome:
        # Each way keeps the environments' state in a form of its own.
        rows = {key: value for key, value in outcome.items() if ".jsonl row" in key}
        return rows | {k: v for k, v in training_state(outcome).items() if not k.startswith("collector/envs/")}

    found = variant(run, scenario, workspace, {"env_backend": backend}, backend)
    assert differences(comparable(reference(scenario).outcome), comparable(found)) == []


def test_an_environments_own_spaces_follow_the_seed(run: Runner, reference: References, workspace: Path) -> None:
    """Some environments and wrappers draw from `self.action_space`; equal runs must then draw equally."""
    reference("dqn")
    variant(run, "dqn", workspace, {}, "once more")
    names = ("reference-dqn", "reference-dqn-once-more")
    states = [state_of(run_inside(workspace / name), spaces=True) for name in names]
    generators = [key for key in states[0] if "action_space" in key]
    assert generators, "the state of the environments no longer holds their spaces: this test looks at nothing"
    assert differences(*states) == []


def test_reading_an_outcome_does_not_change_the_run(run: Runner, reference: References, workspace: Path) -> None:
    assert differences(reference("ppo").outcome, read_outcome(workspace / "reference-ppo")) == []
