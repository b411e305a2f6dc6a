"""Noise that lasts: unit variance, the correlation that was asked for, fresh at episode starts, exact after resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training import TD3
from rl_training.runtime.exploration import LastingNormals


def walk(correlation: float, steps: int = 4000, envs: int = 8) -> np.ndarray:
    rng = LastingNormals(np.random.default_rng(0), correlation)
    return np.stack([rng.standard_normal((envs, 2), np.float32) for _ in range(steps)])


@pytest.mark.parametrize("correlation", [0.5, 0.95])
def test_it_is_an_ornstein_uhlenbeck_process_of_unit_variance(correlation: float) -> None:
    x = walk(correlation)
    assert x.dtype == np.float32
    assert x.var() == pytest.approx(1.0, abs=0.06)
    for lag in (1, 3):
        assert (x[lag:] * x[:-lag]).mean() == pytest.approx(correlation**lag, abs=0.05)
    assert abs(np.corrcoef(x[:, 0, 0], x[:, 1, 0])[0, 1]) < 0.35, "environments have noise of their own"


def test_an_ended_episode_forgets() -> None:
    rng = LastingNormals(np.random.default_rng(0), 0.999)
    before = rng.standard_normal((3, 1), np.float32).copy()
    rng.restart(np.array([False, True, False]))
    after = rng.standard_normal((3, 1), np.float32)
    assert np.abs(after - before)[[0, 2]].max() < 0.2 and abs(after - before)[1, 0] > 0.2


def test_the_rest_of_the_generator_is_as_it_was() -> None:
    lasting, plain = LastingNormals(np.random.default_rng(3), 0.9), np.random.default_rng(3)
    assert np.array_equal(lasting.random(5), plain.random(5))
    assert np.array_equal(lasting.standard_normal(4), plain.standard_normal(4)), "the first step has nothing to resemble"


def test_actions_explore_with_it(tmp_path: Path) -> None:
    """Far from the policy's mean for a while, not to and fro."""

    def changes(correlation: float) -> float:
        agent: Any = TD3(
            "Pendulum-v1", total_steps=200, learning_starts=0, batch_size=8, hidden=(8,), exploration_noise=0.5, num_episodes=0,
            noise_correlation=correlation, progress="quiet", tensorboard=False, output_dir=str(tmp_path), checkpoint_every=0,
        ).learn()  # fmt: skip
        storage = agent.parts.buffer.storage
        actions = storage.rows[: len(storage), storage.obs_size]
        return float(np.abs(np.diff(actions)).mean())

    assert changes(0.95) < 0.5 * changes(0.0)
