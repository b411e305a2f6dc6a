"""Offline policy selection: which checkpoint is best, told from stored data and not by playing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rl_training.agent import TRAINED, Agent
from rl_training.algorithms.fqe import FittedQ
from rl_training.config import ModelConfig
from rl_training.data.batch import tree_map
from rl_training.data.dataset import Dataset
from rl_training.data.dataset_buffer import DatasetBuffer
from rl_training.data.rewards import RewardMap
from rl_training.errors import ConfigError
from rl_training.models.critics import action_critic
from rl_training.runtime.accelerate import accelerate
from rl_training.runtime.rng import derive, seed_globals

ROWS = 8_192  # whose actions are asked for at a time
BATCH, LEARNING_RATE, TAU = 256, 1e-3, 0.01
TD_BATCHES = 20


@dataclass(frozen=True)
class Judgement:
    """What a checkpoint is taken to be worth; higher is better."""

    value: float
    fit: float  # what is left of the error, in the unit of rewards


def fitted_q(agent: Agent, data: Dataset, gamma: float, updates: int, seed: int) -> Judgement:
    """The mean value of the greedy policy at the starts of stored episodes, by a critic fitted to the data."""
    scale = float(data.reward.std()) or 1.0
    data = replace(data, reward=data.reward / np.float32(scale))
    next_action = torch.from_numpy(greedy(agent, data.next_obs))
    seed_globals(derive(seed, "fitted q"))
    model = ModelConfig(hidden=agent.config.model.hidden, activation="relu", init="default", layer_norm=True)
    rule = FittedQ(action_critic(agent.obs_spec, agent.action_spec, model, members=2), LEARNING_RATE, TAU)
    rule.bind()
    steps = accelerate(rule, "eager")
    buffer = DatasetBuffer(data, agent.obs_spec, agent.action_spec, batch_size=BATCH, gamma=gamma, seed=seed)
    fit = 0.0
    for update in range(updates):
        batch = normalized(agent, buffer.sample(BATCH))
        (out,) = steps(batch | {"next_action": next_action[batch["index"]]}, [{}])
        if update >= updates - updates // 10:
            fit += float(out["td"].mean()) / max(1, updates // 10)
    starts = data.episode_starts()
    obs = tree_map(lambda column: column[starts], data.obs)
    first = normalized(agent, {"obs": tree_map(torch.from_numpy, obs)})["obs"]
    with torch.no_grad():
        value = rule.critic.of_action(first, torch.from_numpy(greedy(agent, obs))).mean()
    return Judgement(float(value) * scale, fit * scale)


def td_error(agent: Agent, data: Dataset, reward: RewardMap, seed: int) -> Judgement:
    """Minus the mean error of the agent's own critics on the data, with the rewards that they learned from."""
    rule: Any = agent.parts.algorithm
    if agent.parts.offline is None or not hasattr(rule, "critic_loss"):
        raise no_critics(agent)
    buffer = agent.parts.offline(replace(data, reward=reward(data.reward)))
    seed_globals(derive(seed, "td error"))
    errors = []
    with torch.enable_grad():  # some losses take gradients of their own
        for batch in buffer.batches(TD_BATCHES, rule.prepare):
            out = rule.critic_loss(rule.normalized(batch))[1]
            if "td" not in out:
                raise no_critics(agent)
            errors.append(float(out["td"].mean()))
    return Judgement(-float(np.mean(errors)), float(np.mean(errors)))


def no_critics(agent: Agent) -> ConfigError:
    return ConfigError(f"{agent.name} has no critics of actions whose error could be looked at.", fix="Use --method fqe")


def greedy(agent: Agent, obs: Any) -> NDArray[Any]:
    """What the agent would do, as stored data have it."""
    count = len(next(iter(obs.values()))) if isinstance(obs, dict) else len(obs)
    rng = np.random.default_rng(0)  # not drawn from: nothing is explored
    blocks = (tree_map(itemgetter(slice(start, start + ROWS)), obs) for start in range(0, count, ROWS))
    actions = np.concatenate([agent.actor.act(block, rng, TRAINED, explore=False) for block in blocks])
    return actions.clip(-1.0, 1.0).astype(np.float32) if agent.action_spec.kind == "continuous" else actions


def normalized(agent: Agent, batch: dict[str, Any]) -> dict[str, Any]:
    """The batch as the agent's networks see it."""
    found: dict[str, Any] = agent.parts.algorithm.normalized(batch)
    return found


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's: the correlation of the ranks, ties sharing theirs; NaN where either does not vary."""
    ranks = []
    for values in (np.asarray(a), np.asarray(b)):
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        ranks.append((np.cumsum(counts) - (counts - 1) / 2)[inverse])
    if min(np.ptp(rank) for rank in ranks) == 0:
        return float("nan")
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])
