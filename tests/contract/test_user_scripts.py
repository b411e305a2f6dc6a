"""What users of other libraries type first: vector envs of their own, objects instead of names, foreign spellings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from tiny import Maker

from rl_training import DQN, PPO, SAC, TD3BC, Callback, StopOnReturn
from rl_training.config import TrainConfig
from rl_training.data.formats.native import write_dataset
from rl_training.errors import ConfigError
from rl_training.experiment.recording import Source, record

QUIET: dict[str, Any] = {"progress": "quiet", "tensorboard": False, "num_episodes": 2, "hidden": (8, 8)}
ROLLOUT: dict[str, Any] = {"num_steps": 16, "minibatches": 2}


@pytest.mark.parametrize("kind", ["registered", "made by hand"])
def test_a_vector_env_of_the_users_own(kind: str, tmp_path: Path) -> None:
    envs: Any = gym.make_vec("CartPole-v1", num_envs=3)
    if kind == "made by hand":
        envs = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 3)
    resets = 0
    original = envs.reset

    def counting(**options: Any) -> Any:
        nonlocal resets
        resets += 1
        return original(**options)

    envs.reset = counting
    agent = PPO(envs, total_steps=400, eval_every=100, output_dir=str(tmp_path), **QUIET, **ROLLOUT).learn()
    assert agent.config.env.num_envs == 3
    assert resets == 1, "test episodes have environments of their own"
    assert len(agent.evaluate(3).returns) == 3 and not envs.closed
    envs.close()


def test_a_made_up_row_alone_does_not_break_the_normalizer(tmp_path: Path) -> None:
    envs = gym.make_vec("Pendulum-v1", num_envs=1)  # NEXT_STEP autoreset: every 201st chunk holds no real row
    agent = SAC(
        envs, total_steps=260, learning_starts=50, batch_size=16, normalize_obs=True, output_dir=str(tmp_path), **QUIET
    ).learn()
    assert agent.parts.algorithm.policy.normalizer is not None
    assert torch.isfinite(agent.parts.algorithm.policy.normalizer.mean).all()


MISTAKES: dict[str, tuple[Callable[[str], Any], str]] = {
    "an object": (lambda out: PPO(gym.make("CartPole-v1")), "not an environment object"),
    "a policy name first": (lambda out: PPO("MlpPolicy", "CartPole-v1"), "PPO takes the environment's id or a function"),
    "total_timesteps": (
        lambda out: PPO("CartPole-v1", output_dir=out, **QUIET).learn(total_timesteps=10), "Use total_steps;"),
    "not a callback": (
        lambda out: PPO("CartPole-v1", output_dir=out, **QUIET).learn(64, callbacks=[print]), "is not a callback"),
    "no hidden layer to duel in": (lambda out: DQN("CartPole-v1", dueling=True, hidden=()), "needs a hidden layer"),
    "a buffer for the moon": (lambda out: DQN("CartPole-v1", buffer_size=10**12), "does not fit into memory"),
    "an idle setting": (lambda out: PPO("CartPole-v1", dueling=True), "ppo makes no use of model.dueling"),
    "no episodes": (lambda out: PPO("CartPole-v1").evaluate(0), "at least one episode, not 0"),
    "never learning": (
        lambda out: DQN("CartPole-v1", buffer_size=50, learning_starts=60), "learning_starts = 60 is more than buffer_size"),
    "priorities of a mixture": (
        lambda out: SAC("Pendulum-v1", dataset="x", offline_updates=5, priority=0.6, output_dir=out).learn(), "drawn uniformly"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_get_one_clear_message_and_leave_nothing(name: str, tmp_path: Path) -> None:
    make, expected = MISTAKES[name]
    with pytest.raises(ConfigError) as caught:
        make(str(tmp_path))
    assert expected in str(caught.value), caught.value
    assert not list(tmp_path.iterdir()), "no run directory for what never ran"


def test_observations_of_any_number_type_are_taken() -> None:
    agent = DQN("CartPole-v1", dueling=True, hidden=(8, 8))
    expected = agent.predict(np.zeros(4, np.float32))
    assert agent.predict(np.zeros(4)) == expected and agent.predict([0, 0, 0, 0]) == expected
    batch = agent.predict(torch.zeros(2, 4))
    assert isinstance(batch, np.ndarray) and batch.tolist() == [expected] * 2


def test_learning_again_starts_a_new_run_from_the_weights(tmp_path: Path) -> None:
    agent = DQN("CartPole-v1", total_steps=300, learning_starts=50, n_step=3, output_dir=str(tmp_path), **QUIET).learn()
    first, weights = agent.result, torch.cat([p.flatten().clone() for p in agent.parts.algorithm.parameters()])
    again = agent.learn()
    assert again.result is not None and first is not None and again.result.run_dir != first.run_dir
    assert len(again.parts.buffer.storage) == 300, "a buffer of its own, without a seam to the first run"
    assert not torch.equal(weights, torch.cat([p.flatten() for p in again.parts.algorithm.parameters()]))


def test_fine_tuning_twice_goes_through_both_phases_again(make: Maker) -> None:
    agent = make.standard("td3_bc", steps=20, total_steps=60, batch_size=8)
    for _ in range(2):
        metrics = agent.learn().result.metrics
        assert (metrics["global_step"], metrics["updates"]) == (60.0, 80.0 if agent.config.algorithm.train_freq == 1 else 50.0)


class Drawing(gym.Env[Any, Any]):
    """Draws from NumPy's global generator, as careless environments do."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return np.random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return np.random.uniform(-1, 1, 2).astype(np.float32), float(action), False, self.t >= 10, {}


class Meddling(Callback):
    def on_step(self, run: Any) -> None:
        torch.manual_seed(0)
        np.random.seed(0)


def test_evaluation_and_callbacks_never_reach_the_global_generators(tmp_path: Path) -> None:
    weights = []
    for every, callbacks in ((0, []), (100, []), (0, [Meddling()])):
        agent = PPO(Drawing, total_steps=512, eval_every=every, output_dir=str(tmp_path), **QUIET, **ROLLOUT)
        agent.learn(callbacks=callbacks)
        weights.append(torch.cat([p.flatten() for p in agent.parts.algorithm.parameters()]))
    assert torch.equal(weights[0], weights[1]), "evaluation changed training"
    assert torch.equal(weights[0], weights[2]), "a callback changed training"


def test_a_single_callback_can_stop_a_run(tmp_path: Path) -> None:
    settings = QUIET | ROLLOUT | {"total_steps": 3000, "eval_every": 500, "output_dir": str(tmp_path)}
    agent = PPO("CartPole-v1", **settings).learn(callbacks=StopOnReturn(5))
    assert agent.result is not None and agent.result.metrics["global_step"] == 512


def test_changed_data_is_noticed_on_resume(make: Maker, tmp_path: Path) -> None:
    class Stop(Callback):
        def on_step(self, run: Any) -> None:
            if run.learner.updates == 10:
                raise KeyboardInterrupt

    agent = make.standard("td3_bc", steps=40, batch_size=8, checkpoint_every=5)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(callbacks=Stop())
    (run,) = tmp_path.glob("td3_bc__*")
    other = tmp_path / "other"
    write_dataset(record(agent.config, [Source(None, 300)], seed=9), other)
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(text.replace(agent.config.dataset, str(other)))
    with pytest.raises(ConfigError, match="The dataset has changed since this run began"):
        TD3BC.resume(run)


def test_recording_explores_only_when_asked(tmp_path: Path) -> None:
    agent = SAC("Pendulum-v1", hidden=(8, 8))
    config = TrainConfig(algo="sac", env_id="Pendulum-v1", env=None)
    greedy, noisy = (record(config, [Source(agent, 40, explore), Source(None, 10)], seed=0) for explore in (False, True))
    np.testing.assert_allclose(greedy.action[:40, 0], np.ravel(agent.predict(greedy.obs[:40])) / 2.0, atol=1e-6)
    assert np.abs(greedy.action[:40] - noisy.action[:40]).max() > 0.05
    assert greedy.truncated[39] and greedy.truncated[49] and len(greedy) == 50
