"""What every side of the offline comparison does alike: the data, the clock and the final episodes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

WARM_UP = 50  # updates before the clock starts
EPISODES = 20
# algorithm -> updates: so many that the slowest side takes some minutes
UPDATES = {"td3_bc": 6_000, "iql": 4_000, "cql": 600}
SHARED: dict[str, dict[str, Any]] = {
    "td3_bc": {"learning_rate": 3e-4, "alpha": 2.5},
    "iql": {"learning_rate": 3e-4, "expectile": 0.7, "beta": 3.0, "max_weight": 100.0},
    "cql": {"learning_rate": 3e-4, "actor_learning_rate": 1e-4, "weight": 5.0, "actions": 10},
}
HIDDEN, BATCH, GAMMA, TAU = [256, 256], 256, 0.99, 0.005


def columns(path: str) -> dict[str, np.ndarray]:
    with np.load(path) as stored:
        return {key: stored[key] for key in stored}


def timed(name: str, update: Callable[[], Any], predict: Callable[[np.ndarray], np.ndarray], **facts: Any) -> None:
    """Make the updates, then play; print one line of JSON."""
    for _ in range(WARM_UP):
        update()
    count = UPDATES[name] - WARM_UP
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(count):
        update()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    row = {"updates_per_cpu_s": count / cpu, "updates_per_wall_s": count / wall, "return": played(predict)}
    print(json.dumps(row | facts))


def played(predict: Callable[[np.ndarray], np.ndarray]) -> float:
    """Mean return of the greedy policy; `predict` gives an action in [-1, 1]."""
    env, returns = gym.make("Pendulum-v1"), []
    for episode in range(EPISODES):
        obs, done, total = env.reset(seed=episode)[0], False, 0.0
        while not done:
            obs, reward, terminated, truncated, _ = env.step(2.0 * predict(obs))
            total, done = total + float(reward), terminated or truncated
        returns.append(total)
    return float(np.mean(returns))
