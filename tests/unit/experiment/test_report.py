"""The report: complete, escaped, self-contained, and never stopped by strange files."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from rl_training.experiment.report import write_report
from rl_training.experiment.report_curve import curve, number, ticks
from rl_training.experiment.report_data import RunData, read_run, smooth, thin

EVIL = "<script>alert('x')</script>&\"'"
SVG = "{http://www.w3.org/2000/svg}"


def rows(path: Path, found: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in found))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of 60 episodes and 3 evaluations whose texts are hostile."""
    folder = tmp_path / "ppo__X__seed1"
    folder.mkdir()
    info = {
        "status": "finished", "started": "2026-11-18T00:00:00+00:00", "command": f"rl-training train {EVIL}",
        "versions": {"torch": "2.13.0", EVIL: EVIL}, "hardware": {"cpus": 2}, "git": {"commit": "abc", "dirty": True},
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(info))
    (folder / "config.yaml").write_text(
        f"algo: ppo\nenv_id: {json.dumps(EVIL)}\nseed: 1\ntotal_steps: 600\noffline_updates: 0\nmodel:\n  hidden: [8, 8]\n"
    )
    (folder / "config_origin.json").write_text(
        json.dumps({"seed": "--seed", "algo": "command line", "model.hidden": "default"})
    )
    rows(
        folder / "episodes.jsonl",
        [{"seq": i, "step": 10 * i, "env": 0, "length": 10, "total": float(i)} for i in range(60)],
    )
    rows(
        folder / "evaluations.jsonl",
        [{"step": 200 * i, "mean": 20.0 * i, "std": 2.0, "returns": []} for i in (1, 2, 3)],
    )
    rows(folder / "metrics.jsonl", [{"step": 1, "time/update": 0.1}, {"step": 2, "time/update": 0.75, "time/fps": 9.0}])
    (folder / "eval").mkdir()
    (folder / "eval" / "summary.json").write_text(
        json.dumps({"mean": 61.5, "std": 0.0, "episodes": 20, "checkpoint": "step_600"})
    )
    return folder


class Page(HTMLParser):
    """Collects tags, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def test_it_tells_what_was_found(run: Path) -> None:
    page = Page(write_report(run).read_text())
    for expected in (
        "61.5 ± 0.0", "step_600, 20 test episodes", "60.0 ± 2.0", "best evaluation, at 600 env steps", "75.0%",
        "60 training episodes, 3 evaluations, the first 20.0, the last 60.0", f"rl-training train {EVIL}", "2.13.0",
        f"rl-training train --config {run}/config.yaml", "code: commit abc with changes", "1   (--seed)", "[8, 8]",
    ):  # fmt: skip
        assert expected in page.text, f"{expected!r} is not in:\n{page.text}"


def test_it_runs_nothing_and_fetches_nothing(run: Path) -> None:
    text = write_report(run).read_text()
    page = Page(text)
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "link", "img", "iframe", "object", "form", "base"})
    for tag, attributes in page.tags:
        risky = [name for name in attributes if name.startswith("on") or name in ("src", "href", "style", "action")]
        assert not risky, f"<{tag}> has {risky}"
    policy = next(
        a["content"] for t, a in page.tags if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None and policy.startswith("default-src 'none'"), policy
    assert "@import" not in text and "url(" not in text
    assert set(re.findall(r"https?://[^\"\s]+", text)) == {"http://www.w3.org/2000/svg"}, (
        "only the name of SVG may stand there"
    )


def test_it_fits_a_phone_and_both_schemes(run: Path) -> None:
    text = write_report(run).read_text()
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert "prefers-color-scheme: dark" in text


def test_the_picture_is_a_file_of_its_own(run: Path) -> None:
    write_report(run)
    root = ElementTree.fromstring((run / "curve.svg").read_text())
    lines = {line.get("class"): line.get("points", "").split() for line in root.iter(f"{SVG}polyline")}
    assert len(lines["train"]) == 60 and len(lines["test"]) == 3, lines
    assert root.find(f"{SVG}title") is not None and root.get("aria-label", "").startswith("Return over env steps")
    x, y = zip(*(map(float, point.split(",")) for point in lines["train"] + lines["test"]))
    assert min(x) >= 58 and max(x) <= 536 and min(y) >= 34 and max(y) <= 294, "the curve leaves its frame"


def test_a_long_run_stays_small(run: Path) -> None:
    rows(run / "episodes.jsonl", [{"step": i, "total": math.sin(i / 1000)} for i in range(50_000)])
    page = write_report(run)
    assert page.stat().st_size < 100_000, page.stat().st_size


def test_a_run_that_has_just_begun(tmp_path: Path) -> None:
    text = Page(write_report(tmp_path).read_text()).text
    assert "no returns yet" in text and "no scores yet" in text and "? on ?" in text, text


@pytest.mark.parametrize(
    "junk", ["{", "[1]", '{"step": "a", "mean": 1}', '{"step": NaN, "total": 1, "mean": 1, "std": 1}', "[" * 9999]
)
def test_junk_is_passed_over(run: Path, junk: str) -> None:
    for name in ("episodes.jsonl", "evaluations.jsonl", "metrics.jsonl"):
        (run / name).write_text((run / name).read_text() + junk)
    for name in ("run.json", "config_origin.json", "eval/summary.json", "config.yaml"):
        (run / name).write_text(junk)
    data = read_run(run)
    assert (data.episode_count, len(data.evaluations), data.shares) == (60, 3, {"update": 0.75})
    write_report(run)


def test_values_that_are_not_what_they_should_be(run: Path) -> None:
    (run / "run.json").write_text(
        json.dumps({"status": [1], "git": "x", "versions": 3, "started": None, "command": {"a": 1}})
    )
    (run / "eval" / "summary.json").write_text(
        json.dumps({"mean": "high", "std": None, "episodes": [], "checkpoint": EVIL})
    )
    assert "? ± ?" in Page(write_report(run).read_text()).text


def test_episodes_of_an_offline_to_online_run_follow_its_updates(run: Path) -> None:
    (run / "config.yaml").write_text("algo: sac\nenv_id: X\noffline_updates: 1000\ntotal_steps: 600\n")
    assert read_run(run).episodes[0][0] == 1000.0


def test_smooth_and_thin() -> None:
    assert smooth([(0, 2.0), (1, 4.0), (2, 9.0)], 2) == [(0, 2.0), (1, 3.0), (2, 6.5)]
    points = [(float(i), 0.0) for i in range(1001)]
    assert len(thin(points)) <= 400 and thin(points)[-1] == points[-1]
    assert thin(points[:3]) == points[:3]


@pytest.mark.parametrize(
    ("low", "high"), [(0, 98_304), (-1600, -150), (0, 0), (5e-9, 7e-9), (-0.3, 1e6), (21, 21), (-3e12, -1)]
)
def test_ticks_enclose_the_data(low: float, high: float) -> None:
    found = ticks(low, high)
    assert 3 <= len(found) <= 9, found
    assert found[0] <= low + 1e-6 * abs(low) and found[-1] >= high - 1e-6 * abs(high), found


def test_numbers_are_short() -> None:
    shown = [number(v) for v in (0.0, -0.25, 475.0, 9999.0, 20_000.0, 1_500_000.0, 2e9)]
    assert shown == ["0", "-0.25", "475", "9999", "20k", "1.5M", "2G"], shown


def test_target_is_drawn(run: Path) -> None:
    data = RunData("x", {}, {"algo": "ppo", "env_id": "X"}, {}, episodes=[(0, 1.0), (9, 2.0)], episode_count=2)
    assert "target 475" in curve(data, 475.0) and "target" not in curve(data).replace("class", "")
