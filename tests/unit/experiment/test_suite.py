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
from rl_training.experiment.suite import ALGORITHMS, Stage, Trained, scale, suite_config, train


def trained(*means: float, random: float = 0.0) -> Trained:
    stages = tuple(Stage(Path(f"step_{100 * i}"), 100 * i, mean) for i, mean in enumerate(means, 1))
    return Trained(Path("run"), random, stages)


def test_medium_is_a_third_of_the_way_to_the_best() -> None:
    found = trained(-1190, -1000, -860, -800, -300, -150, -160, -830, random=-1200)
    assert (found.expert.mean, found.expert.step) == (-150, 600)
    assert found.medium.mean == -860, "-850 is a third; what came after the best is not on the way"
    assert found.stage("random") is None and found.stage("expert") == found.expert
    assert found.stage("medium") == found.stage("medium-replay") == found.medium
    assert trained(5.0).medium.mean == 5.0


@pytest.mark.parametrize("env_id", ALGORITHMS)
def test_the_suite_trains_by_its_presets(env_id: str, tmp_path: Path) -> None:
    assert find_preset(ALGORITHMS[env_id], env_id) is not None
    config = suite_config(env_id, tmp_path, 3, None, "cpu")
    assert (config.algo, config.seed, config.output_dir) == (ALGORITHMS[env_id], 3, str(tmp_path))
    assert config.evaluation.every == config.checkpoint.every == config.total_steps // 40


def test_scales() -> None:
    pendulum = suite_config("Pendulum-v1", Path("x"), 0, None, "cpu")
    assert scale(pendulum, None) is None
    own = scale(pendulum, trained(-700, -200, random=-1200))
    assert own is not None and (own["random"], own["expert"]) == (-1200, -200)
    assert returns_of([-700, -100, -400], own) == {
        "whole_episodes": 3, "mean": -400, "min": -700, "max": -100, "normalized_score": 80
    }  # fmt: skip
    assert returns_of([], own)["mean"] is None and returns_of([1.0], None)["normalized_score"] is None
    hopper = scale(suite_config("Hopper-v5", Path("x"), 0, None, "cpu"), trained(5.0))
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
    assert [stage.step for stage in found.stages] == list(range(4, 161, 4))
    assert 10 < found.random < 40, "what random actions return in CartPole"
    before = sorted(path.stat().st_mtime_ns for path in run.rglob("*"))
    assert train(config) == found and sorted(path.stat().st_mtime_ns for path in run.rglob("*")) == before
    with pytest.raises(ConfigError, match=r"is a training of 160 steps, not of 200(.|\n)*Add --total-steps 160"):
        train(suite_config("CartPole-v1", tmp_path, 0, 200, "cpu"))
