"""The collector: what it stores, counts, and does with rows that an autoreset made up."""

from __future__ import annotations

from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rl_training.config import EnvConfig, ModelConfig
from rl_training.envs.adapter import EnvAdapter
from rl_training.envs.factory import make_vector_env
from rl_training.errors import NonFiniteError
from rl_training.models.policies import CategoricalPolicy
from rl_training.runtime.acting import Actor
from rl_training.runtime.collector import Collector
from rl_training.testing import OneState


def collector(*lengths: int, mode: AutoresetMode = AutoresetMode.SAME_STEP, **settings: bool) -> Collector:
    envs = EnvAdapter(SyncVectorEnv([lambda n=n: OneState(n) for n in lengths], autoreset_mode=mode))
    torch.manual_seed(0)
    policy = CategoricalPolicy(envs.obs_spec, envs.action_spec, ModelConfig(hidden=(4,)))
    return Collector(envs, Actor(policy), seed=0, **settings)


def test_made_up_rows_are_marked_and_real_ones_are_not() -> None:
    rows = collector(3, 5, mode=AutoresetMode.NEXT_STEP)
    valid, rewards = [], []
    for _ in range(12):
        chunk = rows.collect(1)
        valid.append(chunk.get("valid", np.ones((1, 2), np.bool_))[0].tolist())
        rewards.append(chunk["reward"][0].tolist())
    assert [v[0] for v in valid] == [(t + 1) % 4 != 0 for t in range(12)], valid
    assert [v[1] for v in valid] == [(t + 1) % 6 != 0 for t in range(12)], valid
    assert all((r == 1.0) == v for row, mask in zip(rewards, valid) for r, v in zip(row, mask)), "a real row has reward 1"
    assert rows.steps == sum(map(sum, valid)), "made-up rows are not env steps"
    assert [e.length for e in rows.drain_episodes()] == [3, 5, 3, 3, 5]


def test_episodes_are_counted_across_chunks() -> None:
    rows = collector(4)
    for _ in range(3):
        rows.collect(3)
    assert [(e.step, e.length, e.total) for e in rows.drain_episodes()] == [(4, 4, 4.0), (8, 4, 4.0)]
    assert rows.drain_episodes() == []


def test_outputs_are_kept_when_asked_for() -> None:
    chunk = collector(4, 4, keep_outputs=True).collect(5)
    policy_again = collector(4, 4, keep_outputs=True)
    expected = policy_again.actor.outputs(chunk["obs"][2])
    np.testing.assert_array_equal(chunk["outputs"][2], expected)
    assert "outputs" not in collector(4, 4).collect(5)


def test_the_first_non_finite_reward_is_named() -> None:
    class Broken(OneState):
        def step(self, action: object) -> tuple[np.ndarray, float, bool, bool, dict[str, object]]:
            obs, reward, terminated, truncated, info = super().step(action)
            self.count = getattr(self, "count", 0) + 1
            return obs, float("inf") if self.count == 3 else reward, terminated, truncated, info

    envs = EnvAdapter(SyncVectorEnv([lambda: OneState(9), lambda: Broken(9)], autoreset_mode=AutoresetMode.SAME_STEP))
    policy = CategoricalPolicy(envs.obs_spec, envs.action_spec, ModelConfig(hidden=(4,)))
    with pytest.raises(NonFiniteError, match="inf in reward of env 1 at env step 6") as caught:
        Collector(envs, Actor(policy), seed=0).collect(8)
    assert caught.value.evidence["env"] == 1 and caught.value.evidence["reward"][:2] == [1.0, 1.0], caught.value.evidence


def test_envs_that_cannot_be_captured_start_new_episodes() -> None:
    def rows() -> Collector:
        local = SimpleNamespace(env_id=lambda: OneState(50), env=EnvConfig())  # a local function cannot be found again
        envs = EnvAdapter(make_vector_env(local, 1))
        return Collector(envs, Actor(CategoricalPolicy(envs.obs_spec, envs.action_spec, ModelConfig(hidden=(4,)))), seed=0)

    first, again = rows(), rows()
    assert not first.envs.exact, first.envs.capture
    first.collect(7)
    again.load_state_dict(first.state_dict())
    assert (again.steps, again.lengths.tolist(), again.returns.tolist()) == (7, [0], [0.0])
    again.collect(50)
    assert [e.length for e in again.drain_episodes()] == [50], "a whole new episode, not the rest of the old one"


def test_observations_of_gymnasium_and_native_envs_agree() -> None:
    from rl_training.envs.native import make_native

    gymnasium = EnvAdapter(SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2, autoreset_mode=AutoresetMode.SAME_STEP))
    native = EnvAdapter(make_native("CartPole-v1", 2, copy=False))
    chunks = []
    for envs in (gymnasium, native):
        torch.manual_seed(1)
        policy = CategoricalPolicy(envs.obs_spec, envs.action_spec, ModelConfig(hidden=(4,)))
        chunks.append({k: v.copy() for k, v in Collector(envs, Actor(policy), seed=3).collect(60).items()})
    for key in chunks[0]:
        np.testing.assert_allclose(chunks[0][key], chunks[1][key], rtol=0, atol=1e-5, err_msg=key)
