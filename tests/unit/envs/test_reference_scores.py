"""Normalized scores by D4RL's constants."""

from __future__ import annotations

import pytest

from rl_training.envs.reference_scores import TABLE, normalized_score, reference


@pytest.mark.parametrize(
    ("value", "env_id", "score"),
    [
        (3000, "HalfCheetah-v5", 26.4207), (3000, "Hopper-v5", 92.8009), (3000, "Walker2d-v5", 65.3144),
        (1000, "HalfCheetah-v4", 10.3114), (1000, "Hopper-v4", 31.3489), (1000, "Walker2d-v4", 21.7478),
    ],
)  # fmt: skip
def test_scores(value: float, env_id: str, score: float) -> None:
    found = normalized_score(env_id, value)
    assert found is not None and round(found, 4) == score
    assert normalized_score("Pendulum-v1", value) is None


@pytest.mark.parametrize("task", TABLE)
def test_random_is_0_and_expert_is_100(task: str) -> None:
    found = reference(f"{task}-v2")
    assert found is not None and found.task == task
    assert (found.normalized(TABLE[task][0]), found.normalized(TABLE[task][1])) == pytest.approx((0, 100))


@pytest.mark.parametrize(
    ("name", "task"),
    {
        "halfcheetah-medium-replay-v2": "halfcheetah", "mujoco/walker2d/expert-v0": "walker2d", "Ant-v5": "ant",
        "AntMaze-v1": "antmaze", "D4RL/antmaze/umaze-v1": "antmaze", "maze2d-large-v1": "maze2d-large",
        "maze2d-umaze-dense-v1": None, "AdroitHandPen-v1": "pen", "D4RL/kitchen/mixed-v2": "kitchen",
        "FrankaKitchen-v1": "kitchen",
        "Pendulum-v1": None, "Antennas-v0": None, "": None,
    }.items(),
)  # fmt: skip
def test_names(name: str, task: str | None) -> None:
    found = reference(name)
    assert (None if found is None else found.task) == task


def test_the_constants_are_named() -> None:
    notes = [found.note for name in ("Hopper-v5", "hopper-medium-v2", "pen-human-v1") if (found := reference(name)) is not None]
    assert notes == [
        "D4RL's constants of hopper: -20.2723 to 3234.3, measured on v2 bodies",
        "D4RL's constants of hopper: -20.2723 to 3234.3",
        "D4RL's constants of pen: 96.2628 to 3076.83",
    ]
