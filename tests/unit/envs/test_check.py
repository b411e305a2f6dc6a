"""Every breach of the Gymnasium contract has its own message; a good environment has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from rl_training import testing
from rl_training.envs.check import check_env
from rl_training.errors import ConfigError

BROKEN = {
    testing.FourValues: ("error", "FourValues.step did not return 5 values (4 values)."),
    testing.WrongShape: ("error", "step returned an observation of shape (3,); the space says (2,)."),
    testing.WrongDtype: ("warning", "reset returned float64; the space says float32."),
    testing.OutsideSpace: ("warning", "at index [0], outside [-1, 1]."),
    testing.NanObservation: ("error", "step returned NaN at index [0]."),
    testing.NanReward: ("error", "The reward is nan."),
    testing.ArrayReward: ("error", "not one number."),
    testing.FlagsNotBool: ("error", "terminated is 0.0, not a bool."),
    testing.InfoNotDict: ("error", "info is list, not a dict."),
    testing.ResetWithoutInfo: ("error", "ResetWithoutInfo.reset did not return (obs, info)."),
    testing.ResetWithoutSeed: ("error", "ResetWithoutSeed.reset does not take seed and options."),
    testing.NotDeterministic: ("warning", "Two episodes with the same seed and actions differ at step 0."),
    testing.NoSpaces: ("error", "NoSpaces has no action_space."),
    testing.OddSpace: ("error", "is not supported."),
    testing.UnboundedAction: ("warning", "has no finite bounds"),
    testing.NeverEnds: ("warning", "No episode of NeverEnds ended in 1,000 random steps."),
    testing.SharedObservation: ("warning", "changes an observation after it has returned it."),
    testing.ChannelsLast: ("warning", "Images of shape (8, 8, 3) have their channels last."),
    testing.RaisesAfterReset: ("error", "RaisesAfterReset.reset raised RuntimeError: only one episode"),
}


@pytest.fixture(autouse=True)
def no_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rl_training.envs.probe.probe", lambda *_: "replay")


@pytest.mark.parametrize("env", list(BROKEN), ids=lambda env: env.__name__)
def test_each_breach_is_found_once_with_a_fix(env: Any) -> None:
    severity, text = BROKEN[env]
    report = check_env(env)
    assert [f.severity for f in report.findings if text in f.what] == [severity], str(report)
    assert len(report.findings) == 1 and report.findings[0].fix.strip(), str(report)
    assert report.ok == (severity == "warning"), str(report)


def test_the_messages_are_distinct() -> None:
    fixes = {check_env(env).findings[0].fix for env in BROKEN}
    assert len(fixes) == len(BROKEN), sorted(fixes)


@pytest.mark.parametrize("env_id", [testing.Noisy, testing.Mixed, testing.OneState, "CartPole-v1", "Pendulum-v1"])
def test_a_good_environment_has_no_findings(env_id: Any) -> None:
    report = check_env(env_id)
    assert report.findings == () and report.ok, str(report)
    assert report.steps_per_second > 0
    assert report.capture == ("exact (plain Python)" if isinstance(env_id, str) else "exact (replay)"), report.capture


def test_a_wrapper_that_unpacks_first_does_not_hide_four_values() -> None:
    report = check_env(gym.wrappers.TimeLimit(testing.FourValues(), 10))
    assert report.findings[0].what == (
        "FourValues.step did not return 5 values (not enough values to unpack (expected 5, got 4))."
    )
    assert report.capture == "not exact: not checked"


def test_the_report_reads_as_text_and_unknown_names_are_refused() -> None:
    lines = str(check_env(testing.NanReward)).splitlines()
    assert lines[:2] == ["NanReward", "error: The reward is nan."], lines
    assert lines[-1].startswith("speed: "), lines
    with pytest.raises(ConfigError, match="Did you mean CartPole-v1"):
        check_env("CartPol-v1")
