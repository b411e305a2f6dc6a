"""A chain that tells whether an offline method joins parts of different episodes, or can only repeat whole ones.

States S, X, M and an end. From S, left earns 0.6 and ends; right leads to M. In M, right earns 1, left nothing, and both end. X
leads to M. No stored episode from S earns 1: whoever went right in S went left in M. Only those who value M by its best known
action go right.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from stored import learn_from

from rl_training.algorithms import find
from rl_training.data.dataset import Dataset

S, X, M, END = np.eye(4, dtype=np.float32)
ROWS = 200  # of each of the five steps
STITCHED, REPEATED = 1.0, 0.6
ACTIONS = {"discrete": gym.spaces.Discrete(2), "continuous": gym.spaces.Box(-1.0, 1.0, (1,), np.float32)}


class Chain(gym.Env[Any, Any]):
    """Only its spaces are used: the return of a policy follows from its actions in S and M."""

    observation_space = gym.spaces.Box(0.0, 1.0, (4,), np.float32)

    def __init__(self, actions: str) -> None:
        self.action_space = ACTIONS[actions]


def chain_data(actions: str, seed: int = 0) -> Dataset:
    """200 episodes each of S-left, S-right-M-left and X-any-M-right."""
    rng = np.random.default_rng(seed)

    def action(side: int) -> Any:
        if actions == "discrete":
            return np.int64(side > 0) if side else rng.integers(2)
        return np.float32([side * rng.uniform(0.2, 1.0) if side else rng.uniform(-1.0, 1.0)])

    rows: list[tuple[Any, ...]] = []
    for _ in range(ROWS):
        rows.append((S, action(-1), 0.6, True, END))
        rows += [(S, action(1), 0.0, False, M), (M, action(-1), 0.0, True, END)]
        rows += [(X, action(0), 0.0, False, M), (M, action(1), 1.0, True, END)]
    obs, act, reward, terminated, after = (np.stack([np.asarray(part) for part in column]) for column in zip(*rows))
    return Dataset(
        obs=obs, action=act, reward=reward.astype(np.float32), terminated=terminated, truncated=np.zeros(len(obs), np.bool_),
        next_obs=after, name="chain", sha256="", source="made",
    )  # fmt: skip


def learned_return(name: str, actions: str, updates: int = 2500, **settings: Any) -> float:
    """What the greedy policy earns from S after learning from the chain."""
    common = {"hidden": (64, 64), "offline_updates": updates, "dataset": "chain", "seed": 1}
    agent: Any = find(name)(lambda: Chain(actions), **common | settings)
    learn_from(agent, chain_data(actions), updates)
    side = [bool(a if actions == "discrete" else a[0] > 0) for a in agent.predict(np.stack([S, M]))]
    return (1.0 if side[1] else 0.0) if side[0] else 0.6
