"""What is recorded is what was done: controllers, noise, seams, and the steps of a replay buffer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rl_training import DQN
from rl_training.config import TrainConfig
from rl_training.data.formats.native import write_dataset
from rl_training.envs.scripted import CONTROLLERS
from rl_training.errors import ConfigError
from rl_training.experiment.behaviour import FunctionActor
from rl_training.experiment.checkpointing import CheckpointStore
from rl_training.experiment.recording import Source, play, record
from rl_training.experiment.stored_replay import stored_steps

PENDULUM = TrainConfig(algo="sac", env_id="Pendulum-v1")


@pytest.mark.parametrize(("env_id", "least"), {"Pendulum-v1": -400, "MountainCarContinuous-v0": 80, "CartPole-v1": 300}.items())
def test_scripted_controllers_are_good(env_id: str, least: float) -> None:
    config = TrainConfig(algo="ppo", env_id=env_id)
    recorded = play(config, Source(CONTROLLERS[env_id], 1_200), seed=5)
    assert len(recorded.returns) >= 2 and np.mean(recorded.returns) > least, recorded.returns


def test_noise_replaces_that_share_of_the_steps() -> None:
    def still(obs: Any, rng: np.random.Generator) -> Any:
        return np.zeros(1)

    for noise in (0.0, 0.3, 1.0):
        data = record(PENDULUM, [Source(still, 2_000, noise=noise)], seed=1)
        assert abs((data.action != 0).mean() - noise) < 0.04, noise
    assert abs(data.action.mean()) < 0.05 and abs(data.action.std() - 1 / np.sqrt(3)) < 0.03, "uniform in [-1, 1]"


def test_a_controller_speaks_the_units_of_the_environment() -> None:
    seen = []

    def spin(obs: Any, rng: np.random.Generator) -> Any:
        seen.append(obs)
        return np.array([1.0 if len(seen) % 2 else 7.0])

    data = record(PENDULUM, [Source(spin, 4)], seed=0)
    assert data.action.ravel().tolist() == [0.5, 1.0, 0.5, 1.0], "1 of -2 to 2, and what is outside is clipped"
    np.testing.assert_array_equal(np.stack(seen), data.obs)
    env = gym.make("Pendulum-v1")
    env.reset(seed=0)
    state = data.obs[0]
    env.unwrapped.state = np.array([np.arctan2(state[1], state[0]), state[2]])  # type: ignore[attr-defined]
    after, reward, *_ = env.step(np.array([1.0], np.float32))
    np.testing.assert_allclose(after, data.next_obs[0], atol=1e-4)
    assert abs(float(reward) - data.reward[0]) < 1e-4


def test_nothing_leads_across_the_seams() -> None:
    data = record(PENDULUM, [Source(None, 250), Source(None, 130)], seed=0)
    assert np.flatnonzero(data.truncated).tolist() == [199, 249, 379] and not data.terminated.any()
    inside = np.delete(np.arange(379), [199, 249])
    np.testing.assert_array_equal(data.next_obs[inside], data.obs[inside + 1])
    assert (data.next_obs[249] != data.obs[250]).any()


def test_a_seed_decides_everything() -> None:
    sources = [Source(CONTROLLERS["Pendulum-v1"], 50, noise=0.5), Source(None, 50)]
    first, again, other = (record(PENDULUM, sources, seed) for seed in (3, 3, 4))
    for key, column in first.columns().items():
        np.testing.assert_array_equal(column, again.columns()[key])
    assert (first.action != other.action).any()


@pytest.mark.parametrize("wrong", [[0.0, 1.0], [np.nan], "left", None])
def test_what_is_no_action_is_named(wrong: Any) -> None:
    actor = FunctionActor(lambda obs, rng: wrong, gym.spaces.Box(-2.0, 2.0, (1,)), "file:mine.py:act")
    with pytest.raises(ConfigError, match=r"file:mine.py:act returned .* as an action(.|\n)*Return what .* Box\(-2.0, 2.0"):
        actor.choose(np.zeros((1, 3)), np.random.default_rng(0), 0, False)


def test_choices_that_start_elsewhere_and_impossible_ones() -> None:
    actor = FunctionActor(lambda obs, rng: int(obs[0]), gym.spaces.Discrete(3, start=5), "mine")
    rng = np.random.default_rng(0)
    chosen = actor.choose(np.array([[7.0]]), rng, 0, False)
    assert (chosen.tolist(), chosen.dtype) == ([2], np.int64)
    with pytest.raises(ConfigError, match="the choices are 0 to 2"):
        actor.choose(np.array([[8.0]]), rng, 0, False)


# --- the steps of a replay buffer


def run_with_replay(folder: Path, **settings: Any) -> Path:
    quiet: dict[str, Any] = {"hidden": (8,), "progress": "quiet", "tensorboard": False, "num_episodes": 0, "accelerate": "eager"}
    agent = DQN("CartPole-v1", output_dir=str(folder), learning_starts=50, **quiet | settings).learn()
    assert agent.result is not None
    return agent.result.run_dir


@pytest.mark.parametrize("envs", [1, 3])
def test_a_replay_gives_every_step_in_order(tmp_path: Path, envs: int) -> None:
    run = run_with_replay(tmp_path, total_steps=300, num_envs=envs, buffer_size=1_000)
    newest = CheckpointStore(run).list()[-1]
    parts = stored_steps(run, newest)
    assert [part.steps for part in parts] == [300 // envs] * envs
    episodes = [json.loads(line)["total"] for line in (run / "episodes.jsonl").read_text().splitlines()]
    assert sorted(total for part in parts for total in part.returns) == sorted(episodes)
    for part in parts:
        columns = part.columns
        ends = columns["terminated"] | columns["truncated"]
        assert ends[-1], "the seam"
        np.testing.assert_array_equal(columns["next_obs"][~ends], columns["obs"][1:][~ends[:-1]])
        assert columns["action"].dtype == np.int64 and set(columns["action"]) == {0, 1}


def test_of_a_full_ring_the_newest_steps_are_there(tmp_path: Path) -> None:
    run = run_with_replay(tmp_path, total_steps=300, buffer_size=120)
    newest = CheckpointStore(run).list()[-1]
    (ring,) = stored_steps(run, newest)
    (few,) = stored_steps(run, newest, limit=40)
    assert (ring.steps, few.steps) == (120, 40)
    np.testing.assert_array_equal(few.columns["obs"], ring.columns["obs"][-40:])
    ends = ring.columns["terminated"] | ring.columns["truncated"]
    assert len(ring.returns) == ends[:-1].sum() - 1, "the first episode lost its beginning, the last has no end"


def test_a_run_that_changed_its_rewards_gives_those_of_the_environment(tmp_path: Path) -> None:
    prior = record(TrainConfig(algo="dqn", env_id="CartPole-v1"), [Source(None, 60)], seed=0)
    write_dataset(prior, tmp_path / "prior")
    mixed: dict[str, Any] = {"dataset": str(tmp_path / "prior"), "total_steps": 150, "offline_updates": 0}
    run = run_with_replay(tmp_path / "a", **mixed, reward_scale=0.25, reward_bias=-3.0)
    newest = CheckpointStore(run).list()[-1]
    (part,) = stored_steps(run, newest)
    assert set(part.columns["reward"].tolist()) == {1.0}, "CartPole's, and not 0.25 - 3"
    totals = [json.loads(line)["total"] for line in (run / "episodes.jsonl").read_text().splitlines()]
    assert part.returns == totals and len(totals) > 2
    clipped = run_with_replay(tmp_path / "b", **mixed, reward="clip")
    with pytest.raises(ConfigError, match="what the environment gave cannot be told"):
        stored_steps(clipped, CheckpointStore(clipped).list()[-1])


def test_a_run_without_replay_is_refused(tmp_path: Path) -> None:
    from rl_training import PPO

    quiet: dict[str, Any] = {"progress": "quiet", "tensorboard": False, "num_episodes": 0, "accelerate": "eager"}
    agent = PPO("CartPole-v1", num_envs=2, num_steps=32, minibatches=1, total_steps=64, output_dir=str(tmp_path), **quiet).learn()
    assert agent.result is not None
    with pytest.raises(ConfigError, match="holds no replay buffer"):
        stored_steps(agent.result.run_dir, agent.result.checkpoint_path)
