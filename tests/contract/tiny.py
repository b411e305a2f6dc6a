"""What every algorithm of the registry is tried with; a new one is picked up without a line here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from envs import Match

from rl_training.algorithms import REGISTRY, find
from rl_training.data.dataset import Dataset

NAMES = list(REGISTRY)
TINY: dict[str, Any] = {
    "hidden": (16, 16), "seed": 5, "checkpoint_every": 0, "eval_every": 0, "num_episodes": 2, "logging_every": 100,
    "tensorboard": False, "progress": "quiet", "accelerate": "eager",
}  # fmt: skip
# Settings of algorithms, each for those that have it.
SMALL: dict[str, Any] = {
    "num_steps": 16, "minibatches": 2, "epochs": 4, "batch_size": 32, "buffer_size": 2000, "learning_starts": 64,
    "train_freq": 2, "gradient_steps": 1, "policy_delay": 2, "target_update_interval": 50, "exploration_fraction": 0.3,
    "warm_start": 20, "warmup_updates": 20, "context": 4,
    "critic_steps": 3, "actor_steps": 6, "label_every": 20,
}  # fmt: skip
# The same for settings that are refused for other kinds of action.
SMALL_CONTINUOUS: dict[str, Any] = {"vae_hidden": (16, 16)}
# Of algorithms that make one update of each rollout: short ones, for as many updates as others.
SMALL_OWN: dict[str, dict[str, Any]] = {"ars": {"num_envs": 4}, "a2c": {"num_envs": 4, "num_steps": 4}}
# How an algorithm learns the tiny task, where not with these: A2C's steps are short for long, as its mean square starts at 1.
LEARNS: dict[str, Any] = {"learning_rate": 3e-3, "gamma": 0.5, "steps": 1500}
LEARNS_OWN: dict[str, dict[str, Any]] = {
    "a2c": LEARNS | {"learning_rate": 1e-2, "num_steps": 5},
    # Cloning random actions teaches them; the best episodes among them have more right answers than wrong ones.
    "bc": {"learning_rate": 3e-3, "steps": 1500, "keep_best": 0.1},
    "decision_transformer": {"learning_rate": 3e-3, "steps": 1500, "hidden": (32, 32), "context": 8, "target_return": 8.0},
    # Weights that differ: their usual scale of advantages is 10.
    "marwil": LEARNS | {"norm_rate": 0.1},
    "ars": {"steps": 40_000, "num_envs": 20, "learning_rate": 0.1, "noise": 0.2, "num_steps": 32, "hidden": ()},
    # Their usual penalty is for returns of hundreds; a step is worth at most 1 here.
    "cql": LEARNS | {"penalty": 0.1},
    "cal_ql": LEARNS | {"penalty": 0.1},
}


def small_settings(name: str, **changes: Any) -> dict[str, Any]:
    """Settings for a run of a second."""
    fields = {field.name for field in dataclasses.fields(find(name).config_class)}
    if changes.get("noisy", find(name).defaults.get("model.noisy")):
        fields.discard("exploration_fraction")  # of a randomness that noisy networks do without
    return TINY | {key: value for key, value in SMALL.items() if key in fields} | SMALL_OWN.get(name, {}) | changes


def length(name: str, steps: int) -> dict[str, int]:
    """How long to train: env steps, or updates for what learns from stored data."""
    return {"offline_updates": steps} if REGISTRY[name].offline else {"total_steps": steps}


@dataclasses.dataclass(frozen=True)
class Maker:
    """Makes agents of tiny runs in a test's own folder."""

    folder: Path
    data: Callable[[str], Path]

    def standard(self, name: str, steps: int = 256, **changes: Any) -> Any:
        """On a standard environment that can be saved exactly."""
        env_id = "Pendulum-v1" if "continuous" in REGISTRY[name].actions else "CartPole-v1"
        return find(name)(env_id, **self._settings(name, env_id, steps, changes, "continuous" in REGISTRY[name].actions))

    def match(self, name: str, actions: str, nested: bool = False, steps: int = 256, **changes: Any) -> Any:
        """On `Match`."""
        source = f"match {actions}{' nested' if nested else ''}"
        return find(name)(lambda: Match(actions, nested), **self._settings(name, source, steps, changes, actions == "continuous"))

    def goals(self, name: str, steps: int = 256, **changes: Any) -> Any:
        """On an environment with goals."""
        env_id = "rl_training/PointReach-v0" if "continuous" in REGISTRY[name].actions else "rl_training/BitFlip-v0"
        return find(name)(env_id, **self._settings(name, env_id, steps, changes, "continuous" in REGISTRY[name].actions))

    def _settings(self, name: str, source: str, steps: int, changes: dict[str, Any], continuous: bool) -> dict[str, Any]:
        fields = {field.name for field in dataclasses.fields(find(name).config_class)}
        if continuous:
            changes = {key: value for key, value in SMALL_CONTINUOUS.items() if key in fields} | changes
        data = {"dataset": str(self.data(source))} if REGISTRY[name].needs_data else {}
        return small_settings(name, **{"output_dir": str(self.folder), **length(name, steps), **data, **changes})


def random_action(space: gym.Space[Any], rng: np.random.Generator) -> Any:
    """As policies give it: an index, indices, or numbers in [-1, 1]."""
    if isinstance(space, gym.spaces.Box):
        return rng.uniform(-1, 1, space.shape).astype(np.float32)
    return rng.integers(space.nvec if isinstance(space, gym.spaces.MultiDiscrete) else space.n)


def random_match(env: Match, rows: int = 1000) -> Dataset:
    """Random actions in `Match`, in canonical form."""
    from rl_training.envs.spaces import ObsTranslator, action_translator

    translate, to_env = ObsTranslator(env.observation_space).batch, action_translator(env.action_space, 1)
    rng = np.random.default_rng(0)

    def canonical(obs: Any) -> Any:
        return translate({k: np.asarray(v)[None] for k, v in obs.items()} if env.nested else obs[None])

    columns: dict[str, list[Any]] = {k: [] for k in ("obs", "action", "reward", "terminated", "truncated", "next_obs")}
    obs = canonical(env.reset(seed=0)[0])
    for _ in range(rows):
        action = random_action(env.action_space, rng)[None]
        raw, reward, terminated, truncated, _ = env.step(to_env(action)[0])
        row = (obs, action, np.float32([reward]), np.array([terminated]), np.array([truncated]), canonical(raw))
        for column, value in zip(columns.values(), row):
            column.append(value)
        obs = canonical(env.reset()[0]) if truncated else row[-1]
    joined = {name: _join(values) for name, values in columns.items()}
    return Dataset(**joined, name="random", sha256="", source="")


def _join(values: list[Any]) -> Any:
    if isinstance(values[0], dict):
        return {key: np.concatenate([value[key] for value in values]) for key in values[0]}
    return np.concatenate(values)
