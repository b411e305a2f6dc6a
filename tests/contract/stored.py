"""Learning from data that were never written to a file."""

from __future__ import annotations

from typing import Any

import torch

from rl_training.data.dataset import Dataset
from rl_training.runtime.acting import Actor
from rl_training.runtime.learner import Learner


def learn_from(agent: Any, data: Dataset, updates: int) -> None:
    """So many updates of an agent, without a run."""
    data = data.filter(agent.config.data.keep_best)
    policy = agent.parts.algorithm.policy
    if policy.normalizer is not None:
        policy.normalizer.fit([torch.from_numpy(data.obs)], eps=1e-3)
    learner, buffer = Learner(agent.parts.algorithm), agent.parts.offline(data)
    for step in range(updates):
        learner.algorithm.anneal(step / updates)
        for batch in buffer.batches(1, learner.prepare):
            learner.update(batch)
    agent.actor = Actor(policy)  # after the learner has laid out the parameters
