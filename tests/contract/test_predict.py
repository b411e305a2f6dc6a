"""`predict`: pure, deterministic, in the environment's units, and the same after saving and loading."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph import walk
from outcome import same
from tiny import NAMES, Maker

from rl_training.config import diff


@pytest.fixture(params=NAMES)
def agent(request: pytest.FixtureRequest, make: Maker) -> Any:
    return make.standard(request.param, steps=128).learn()


def observations(agent: Any, count: int = 6) -> np.ndarray:
    low, high = agent.observation_space.low.clip(-3), agent.observation_space.high.clip(max=3)
    return np.random.default_rng(0).uniform(low, high, (count, *low.shape)).astype(np.float32)


def test_the_same_observation_gives_the_same_action(agent: Any) -> None:
    obs = observations(agent)
    first, again = agent.predict(obs), agent.predict(obs.copy())
    np.testing.assert_array_equal(first, again)


def test_nothing_changes(agent: Any) -> None:
    obs = observations(agent)
    before, given = walk(agent), obs.copy()
    agent.predict(obs)
    agent.predict(obs[0])
    after = walk(agent)
    assert before.keys() == after.keys(), before.keys() ^ after.keys()
    assert [path for path in before if not same(before[path], after[path])] == []
    np.testing.assert_array_equal(obs, given)


def test_a_batch_is_its_rows(agent: Any) -> None:
    obs = observations(agent)
    rows = np.stack([agent.predict(row) for row in obs])
    np.testing.assert_allclose(agent.predict(obs), rows, rtol=0, atol=1e-5)


def test_actions_are_the_environments_own(agent: Any) -> None:
    for deterministic in (True, False):
        for obs in observations(agent):
            action = agent.predict(obs, deterministic=deterministic)
            assert agent.action_space.contains(action), (deterministic, action, agent.action_space)


def test_exploring_actions_vary(agent: Any) -> None:
    obs = np.repeat(observations(agent, 1), 10, axis=0)
    # Equal up to rounding: on some processors a matrix product computes the last rows of a batch in another order.
    assert np.ptp(agent.predict(obs, deterministic=True), axis=0).max() <= 1e-5
    # Over rows and over calls: what explores by its weights has one sample of them for all rows of a call.
    varied = np.ptp(np.concatenate([agent.predict(obs, deterministic=False) for _ in range(20)]), axis=0).max()
    # Learned by squared error they have one action for each observation, or each history.
    if agent.config.algo in ("bc", "decision_transformer"):
        assert varied <= 1e-5
        return
    assert varied > 1e-3


def test_saved_and_loaded_it_predicts_the_same(agent: Any, make: Maker) -> None:
    obs = observations(agent)
    saved = agent.save(make.folder / "saved")
    for path in (saved, agent.result.checkpoint_path):
        loaded = type(agent).load(path)
        # A saved agent keeps what was asked for; a run's config has the automatic choices made.
        made = {key for key, _, _ in diff(agent.config, loaded.config)}
        assert made <= (set() if path == saved else {"env.backend", "runtime.device", "runtime.accelerate"}), made
        np.testing.assert_array_equal(loaded.predict(obs), agent.predict(obs))
        state = {key: value.numpy() for key, value in agent.parts.algorithm.state_dict().items()}
        other = {key: value.numpy() for key, value in loaded.parts.algorithm.state_dict().items()}
        assert [key for key in state | other if not same(state.get(key), other.get(key))] == []
