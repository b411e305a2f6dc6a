"""Which checkpoint is medium, which runs are gone on with, and what a card says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rl_training.algorithms import find
from rl_training.config import find_preset, override
from rl_training.errors import ConfigError
from rl_training.experiment.callbacks import Callback
from rl_training.experiment.data_card import returns_of
from rl_training.experiment.suite import ALGORITHMS, Stage, Trained, crossing, nearest, scale, suite_config, train


def stages(*means: float) -> list[Stage]:
    return [Stage(Path(f"step_{100 * i}"), 100 * i, mean) for i, mean in enumerate(means, 1)]


def trained(medium: float, expert: float, random: float) -> Trained:
    return Trained(Path("run"), random, Stage(Path("e"), 600, expert), Stage(Path("m"), 300, medium))


def test_medium_is_nearest_to_the_target_on_the_way_to_the_best() -> None:
    seen = stages(-1190, -1000, -860, -800, -300, -150, -160, -850)
    assert nearest(seen, -850, 600).mean == -860, "what came after the best is not on the way"
    assert nearest(seen, -850, 800).mean == -850
    assert nearest(stages(5.0), 99.0, 100).mean == 5.0
    assert nearest(stages(2.0, 0.0, 1.0), 1.0, 200).step == 100, "of two that are as near the first"


def test_the_target_is_looked_for_where_it_was_first_passed() -> None:
    assert crossing(stages(-1190, -1000, -300, -900, -150), -850) == (200, 300)
    assert crossing(stages(-100, -50), -850) == (0, 100)
    assert crossing(stages(5, 4, 3), 9) == (200, 300), "training may end below random"


def test_whose_data_these_are() -> None:
    found = trained(-850, -150, random=-1200)
    assert found.stage("random") is None and found.stage("expert") == found.expert
    assert found.stage("medium") == found.stage("medium-replay") == found.medium
    assert found.way == pytest.approx(1 / 3)


@pytest.mark.parametrize("env_id", ALGORITHMS)
def test_the_suite_trains_by_its_presets(env_id: str, tmp_path: Path) -> None:
    assert find_preset(ALGORITHMS[env_id], env_id) is not None
    config = suite_config(env_id, tmp_path, 3, None, "cpu")
    assert (config.algo, config.seed, config.output_dir) == (ALGORITHMS[env_id], 3, str(tmp_path))
    assert config.checkpoint.every == config.total_steps // 200
    assert config.evaluation.every == 5 * config.checkpoint.every, "so that what is evaluated is saved"


def test_scales() -> None:
    pendulum = suite_config("Pendulum-v1", Path("x"), 0, None, "cpu")
    assert scale(pendulum, None) is None
    own = scale(pendulum, trained(-700, -200, random=-1200))
    assert own is not None and (own["random"], own["expert"]) == (-1200, -200)
    assert returns_of([-700, -100, -400], own) == {
        "whole_episodes": 3, "mean": -400, "min": -700, "max": -100, "normalized_score": 80
    }  # fmt: skip
    assert returns_of([], own)["mean"] is None and returns_of([1.0], None)["normalized_score"] is None
    hopper = scale(suite_config("Hopper-v5", Path("x"), 0, None, "cpu"), trained(1.0, 5.0, random=0.0))
    assert hopper is not None and hopper["expert"] == 3234.3 and "v2 bodies" in hopper["note"]


def test_a_training_that_was_stopped_goes_on(tmp_path: Path) -> None:
    class Stop(Callback):
        def on_step(self, run: Any) -> None:
            if run.trainer.env_steps == 100:
                raise KeyboardInterrupt

    config = suite_config("CartPole-v1", tmp_path, 0, 160, "cpu")
    config = override(config, progress="quiet", num_episodes=1, accelerate="eager", hidden=(8,))
    with pytest.raises(KeyboardInterrupt):
        find("dqn").from_config(config).learn(callbacks=Stop())
    found = train(config)
    (run,) = tmp_path.iterdir()
    assert found.run == run and json.loads((run / "run.json").read_text())["status"] == "finished"
    saved = sorted(path.name for path in run.glob("checkpoints/step_*"))
    assert saved == [f"step_{step:09d}" for step in range(16, 161, 16)]
    means = {row["step"]: row["mean"] for row in map(json.loads, (run / "evaluations.jsonl").read_text().splitlines())}
    assert list(means) == [80, 160] and found.expert.mean == max(means.values())
    assert found.medium.step <= found.expert.step and found.medium.checkpoint.name in saved
    agent = find("dqn").load(found.medium.checkpoint)
    assert found.medium.mean in (agent.evaluate(1).mean, means.get(found.medium.step))
    assert 10 < found.random < 40, "what random actions return in CartPole"
    before = sorted(path.stat().st_mtime_ns for path in run.rglob("*"))
    assert train(config) == found and sorted(path.stat().st_mtime_ns for path in run.rglob("*")) == before
    with pytest.raises(ConfigError, match=r"is a training of 160 steps, not of 200(.|\n)*Add --total-steps 160"):
        train(suite_config("CartPole-v1", tmp_path, 0, 200, "cpu"))
