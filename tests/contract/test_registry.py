"""What every algorithm of the registry must do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from envs import BEST, RANDOM, Match
from outcome import differences, state_of
from tiny import LEARNS, LEARNS_OWN, NAMES, Maker

from rl_training.algorithms import REGISTRY, find
from rl_training.errors import ConfigError
from rl_training.experiment.callbacks import Callback

PAIRS = [(name, actions) for name in NAMES for actions in REGISTRY[name].actions]


class CrashError(Exception):
    """Ends a run the hard way."""


class CrashAtCheckpoint(Callback):
    def __init__(self, number: int) -> None:
        self.left = number

    def on_checkpoint(self, run: Any, path: Path) -> None:
        self.left -= 1
        if not self.left:
            raise CrashError


@pytest.mark.parametrize(("name", "actions"), PAIRS)
def test_learns_a_tiny_task(name: str, actions: str, make: Maker) -> None:
    envs = {"num_envs": 1 if REGISTRY[name].offline else 4}
    agent = make.match(name, actions, **envs | LEARNS_OWN.get(name, LEARNS))
    mean = agent.learn().evaluate(num_episodes=20).mean
    wanted = RANDOM[actions] + (BEST - RANDOM[actions]) * 0.6
    assert mean >= wanted, f"{name} reached {mean:.2f}; random is {RANDOM[actions]:.2f}, best {BEST:.2f}"


@pytest.mark.parametrize("name", NAMES)
def test_resumes_exactly(name: str, make: Maker) -> None:
    straight = make.standard(name, checkpoint_every=64, num_envs=2).learn()
    crashed = make.standard(name, checkpoint_every=64, num_envs=2)
    with pytest.raises(CrashError):
        crashed.learn(callbacks=[CrashAtCheckpoint(2)])
    run_dir = next(path.parent for path in make.folder.glob("*/run.json") if path.parent != straight.result.run_dir)
    np.random.seed(0)  # a new process has other global generators
    resumed = find(name).resume(run_dir)
    assert differences(state_of(straight.result.run_dir), state_of(run_dir)) == []
    assert resumed.result.metrics == straight.result.metrics


LONGER: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in NAMES if not REGISTRY[name].offline),
    ("dqn", {"priority": 0.6, "n_step": 3, "buffer_size": 1000}),
]


@pytest.mark.parametrize(("name", "settings"), LONGER)
@pytest.mark.parametrize("steps", [160, 512])
def test_a_resumed_run_may_be_longer_or_shorter(name: str, settings: dict[str, Any], steps: int, make: Maker) -> None:
    agent = make.standard(name, checkpoint_every=64, num_envs=2, **settings)
    with pytest.raises(CrashError):
        agent.learn(callbacks=[CrashAtCheckpoint(2)])
    (run_dir,) = (path.parent for path in make.folder.glob("*/run.json"))
    resumed = find(name).resume(run_dir, total_steps=steps)
    assert resumed.result.metrics["global_step"] == steps, resumed.result.metrics


class LookOn(Callback):
    """Uses the agent while it trains, in every way that is meant to change nothing."""

    def __init__(self) -> None:
        self.calls = 0

    def on_step(self, run: Any) -> None:
        self.calls += 1
        if self.calls % 4 == 1:
            obs = np.ones(run.agent.observation_space.shape, np.float32)
            run.agent.predict(obs)
            run.agent.predict(obs, deterministic=False)
            run.agent.evaluate(num_episodes=1)
            run.agent.save(run.dir.parent / f"saved-{self.calls}")


@pytest.mark.parametrize("name", NAMES)
def test_using_the_agent_does_not_change_its_training(name: str, make: Maker) -> None:
    alone = make.standard(name, steps=128, num_envs=2).learn()
    observer = LookOn()
    observed = make.standard(name, steps=128, num_envs=2).learn(callbacks=[observer])
    assert observer.calls >= 4, observer.calls
    assert differences(state_of(alone.result.run_dir), state_of(observed.result.run_dir)) == []


@pytest.mark.parametrize("name", NAMES)
def test_what_happened_before_learning_does_not_change_it(name: str, make: Maker) -> None:
    """Another agent that was built, or a random number that was drawn, in between."""
    import torch

    alone = make.standard(name, steps=128).learn()
    second = make.standard(name, steps=128)
    torch.rand(7)
    second.learn()
    assert differences(state_of(alone.result.run_dir), state_of(second.result.run_dir)) == []


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_setting_is_refused_with_a_suggestion(name: str) -> None:
    env_id = "Pendulum-v1" if "continuous" in REGISTRY[name].actions else "CartPole-v1"
    with pytest.raises(ConfigError, match="Did you mean learning_rate") as refused:
        find(name)(env_id, learning_rte=1e-3)
    assert "learning_rte" in str(refused.value), str(refused.value)


@pytest.mark.parametrize("name", NAMES)
def test_a_value_out_of_range_is_refused(name: str) -> None:
    env_id = "Pendulum-v1" if "continuous" in REGISTRY[name].actions else "CartPole-v1"
    with pytest.raises(ConfigError, match="learning_rate"):
        find(name)(env_id, learning_rate=-1.0)


@pytest.mark.parametrize("name", NAMES)
def test_an_action_space_that_does_not_fit_is_refused(name: str) -> None:
    for actions in set(RANDOM) - set(REGISTRY[name].actions):
        with pytest.raises(ConfigError, match="actions") as refused:
            find(name)(lambda kind=actions: Match(kind))
        assert "Try: rl-training train" in str(refused.value), str(refused.value)


@pytest.mark.parametrize(("name", "actions"), PAIRS)
def test_dict_observations_work(name: str, actions: str, make: Maker) -> None:
    agent = make.match(name, actions, nested=True, normalize_obs=False).learn()
    agent.observation_space.seed(0)
    single = agent.observation_space.sample()
    action = agent.predict(single)
    assert agent.action_space.contains(action), (action, agent.action_space)
    batch = {key: np.stack([np.asarray(value)] * 3) for key, value in single.items()}
    np.testing.assert_allclose(agent.predict(batch), np.stack([action] * 3), rtol=0, atol=1e-5)
