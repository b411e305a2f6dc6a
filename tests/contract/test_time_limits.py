"""A time limit is no end, for every algorithm and through the whole runtime: collector, buffer, targets and learning."""

from __future__ import annotations

import dataclasses
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from envs import ACTIONS
from stored import learn_from
from tiny import NAMES, Maker, random_action

from rl_training.algorithms import REGISTRY, find
from rl_training.data.dataset import Dataset
from rl_training.models.critics import DiscreteCritic, ValueNet
from rl_training.models.noisy import Perturbed, perturbed

LENGTH = 10
REWARD = 0.1  # so that errors stay where a Huber loss is quadratic: beyond, it would hardly feel the one end in ten steps
# ARS, BC and the decision transformer have no value; RLPD is tried with its online relatives. What learns from stored data gets
# the same steps stored.
VALUING = [name for name in NAMES if name not in ("ars", "bc", "decision_transformer", "rlpd")]
UPDATES = 900  # from stored data
# Settings with which a value is found in a second, for those that have them.
QUICK: dict[str, Any] = {
    "gamma": 0.9, "learning_rate": 5e-3, "adam_eps": 1e-5, "tau": 0.1, "batch_size": 32, "learning_starts": 50, "train_freq": 1,
    "gradient_steps": 2, "policy_delay": 2, "target_update_interval": 1, "buffer_size": 500, "alpha": 1e-4, "learn_alpha": False,
    "members": 2, "num_steps": 16, "epochs": 20, "minibatches": 1, "critic_epochs": 20, "v_min": 0.0, "v_max": 2.0,
    "quantiles": 8, "drop": 1, "samples": 8, "target_samples": 8, "max_grad_norm": 10.0, "n_step": 1,
    "vae_hidden": (16, 16), "warm_start": 0,
    "label_every": 50, "critic_steps": 50, "actor_steps": 1, "critic_learning_rate": 5e-2,
}  # fmt: skip
OWN: dict[str, dict[str, Any]] = {
    "a2c": {"num_steps": 4, "total_steps": 12_000, "learning_rate": 2e-2},
    # Their usual penalty is for values of hundreds.
    "cql": {"penalty": 0.05, "samples": 4}, "cal_ql": {"penalty": 0.05, "samples": 4},
}  # fmt: skip


class OneState(gym.Env[Any, Any]):
    """Always the same observation and reward, 10 steps: worth 0.1 / (1 - 0.9) = 1 by time limit, about half if these are ends."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, actions: str, ends: bool = False) -> None:
        self.action_space, self.ends, self.steps = ACTIONS[actions](), ends, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.steps = 0
        return np.full(2, 0.5, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        last = self.steps == LENGTH
        return np.full(2, 0.5, np.float32), REWARD, last and self.ends, last and not self.ends, {}


def one_state_data(actions: str, ends: bool, rows: int = 500) -> Dataset:
    """Random actions in `OneState`."""
    rng, obs = np.random.default_rng(0), np.full((rows, 2), 0.5, np.float32)
    last = np.arange(rows) % LENGTH == LENGTH - 1
    action = np.stack([random_action(ACTIONS[actions](), rng) for _ in range(rows)])
    return Dataset(
        obs=obs, action=action, reward=np.full(rows, REWARD, np.float32), terminated=last & ends, truncated=last & (not ends),
        next_obs=obs, name="one state", sha256="", source="made",
    )  # fmt: skip


def value(name: str, make: Maker, ends: bool = False) -> float:
    """What an algorithm takes the one state to be worth after a short run."""
    fields = {field.name for field in dataclasses.fields(find(name).config_class)}
    settings = {key: setting for key, setting in QUICK.items() if key in fields}
    length = {"offline_updates": UPDATES, "dataset": "one state"} if REGISTRY[name].offline else {"num_envs": 2}
    length |= {} if REGISTRY[name].offline else {"total_steps": 450 if "buffer_size" in fields else 3000}
    settings |= {"hidden": (16, 16)} | length | OWN.get(name, {})
    quiet = {"progress": "quiet", "tensorboard": False, "num_episodes": 0, "checkpoint_every": 0, "output_dir": str(make.folder)}
    agent: Any = find(name)(lambda: OneState(REGISTRY[name].actions[-1], ends), **settings, **quiet)
    if REGISTRY[name].offline:
        learn_from(agent, one_state_data(REGISTRY[name].actions[-1], ends), UPDATES)
    else:
        agent.learn()
    algorithm = agent.parts.algorithm
    obs = algorithm.policy.normalize(torch.full((1, 2), 0.5))
    with torch.no_grad(), perturbed([layer for layer in algorithm.modules() if isinstance(layer, Perturbed)], None):
        critic = getattr(algorithm, "critic", None)
        if critic is None:
            return float(algorithm.policy.head(algorithm.policy.net(obs)).mean())
        alone = isinstance(critic, ValueNet | DiscreteCritic)
        return float((critic(obs) if alone else critic(obs, torch.zeros(1, agent.action_spec.dim))).mean())


@pytest.mark.parametrize("name", VALUING)
def test_a_time_limit_is_no_end(name: str, make: Maker) -> None:
    assert value(name, make) == pytest.approx(1.0, abs=0.12)


@pytest.mark.parametrize("name", VALUING)
def test_an_end_is_one(name: str, make: Maker) -> None:
    assert value(name, make, ends=True) < 0.75
