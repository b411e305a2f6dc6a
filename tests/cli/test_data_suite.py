"""`rl-training data suite`: everything from one command, and nothing twice."""

from __future__ import annotations

import json
from pathlib import Path

from in_process import Run

from rl_training.data.dataset import load_dataset

WORDS = ["data", "suite", "CartPole-v1", "--out", "s", "--steps", "300", "--total-steps", "160", "--device", "cpu"]
QUALITIES = ("random", "medium", "medium-replay", "expert")


def test_the_suite_is_made_once(cli: Run) -> None:
    only = cli(*WORDS, "--quality", "random")
    assert only.code == 0 and not Path("s/runs").exists(), "random data need no training"
    first = load_dataset("s/CartPole-v1/random").sha256
    outcome = cli(*WORDS)
    assert (outcome.code, outcome.err) == (0, "")
    rows = [line.split() for line in outcome.out.splitlines() if line.startswith("CartPole-v1 ")]
    assert [(row[1], row[-1]) for row in rows] == [("random", "there"), *((quality, "made") for quality in QUALITIES[1:])], rows
    data = {quality: load_dataset(f"s/CartPole-v1/{quality}") for quality in QUALITIES}
    assert data["random"].sha256 == first and {len(data[quality]) for quality in ("random", "medium", "expert")} == {300}
    listed = json.loads(Path("s/suite.json").read_text())
    assert set(listed) == {f"CartPole-v1/{quality}" for quality in QUALITIES}
    for quality, one in data.items():
        entry, card = listed[f"CartPole-v1/{quality}"], Path(f"s/CartPole-v1/{quality}/README.md").read_text()
        assert (entry["sha256"], entry["steps"], entry["seed"]) == (one.sha256, len(one), 0)
        assert one.sha256 in card and f"`{entry['command']}`" in card and entry["date"] in card, card
        assert entry["command"].startswith("rl-training data suite CartPole-v1 --out s")
    medium = listed["CartPole-v1/medium"]
    steps = int(listed["CartPole-v1/medium-replay"]["policy"].split(" after ")[1].split()[0])
    assert len(data["medium-replay"]) == steps, "all steps up to medium"
    assert medium["policy"].startswith(f"acting with exploration: dqn after {steps} of 160 env steps, "), medium
    assert medium["policy"].endswith("% of the way from random to expert"), medium
    (run,) = Path("s/runs").iterdir()
    means = {row["step"]: row["mean"] for row in map(json.loads, (run / "evaluations.jsonl").read_text().splitlines())}
    assert listed["CartPole-v1/expert"]["policy_return"] == max(means.values())
    assert Path(json.loads(Path("s/CartPole-v1/medium/dataset.json").read_text())["made"]["checkpoint"]).name.endswith(str(steps))

    Path("s/CartPole-v1/expert/README.md").unlink()
    again = cli(*WORDS)
    assert again.code == 0 and "made" not in again.out, again.out
    assert Path("s/CartPole-v1/expert/README.md").is_file(), "a card that is missing is written again"
    assert len(list(Path("s/runs").iterdir())) == 1


def test_damaged_data_are_not_taken_for_whole(cli: Run) -> None:
    assert cli(*WORDS, "--quality", "random").code == 0
    path = Path("s/CartPole-v1/random/data.safetensors")
    path.write_bytes(path.read_bytes()[:-1])
    outcome = cli(*WORDS, "--quality", "random")
    assert outcome.code == 2 and "is damaged or missing: its hash differs" in outcome.err, outcome


def test_mistakes(cli: Run) -> None:
    outcome = cli("data", "suite", "CartPol-v1", "--out", "s")
    assert outcome.code == 2 and outcome.err.startswith(
        "There is no environment of the suite 'CartPol-v1'. Did you mean CartPole-v1?\nKnown: Pendulum-v1, CartPole-v1, "
    ), outcome
    outcome = cli("data", "suite", "all", "--out", "s", "--quality", "random,mediun")
    assert outcome.err == "There is no quality 'mediun'. Did you mean medium?\nKnown: random, medium, medium-replay, expert\n"
    assert not Path("s").exists()
