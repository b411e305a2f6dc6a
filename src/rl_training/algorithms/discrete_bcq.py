"""BCQ for discrete actions (Fujimoto et al. 2019, arXiv:1910.01708): Double DQN among the actions that the data may have."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from rl_training.algorithms.base import Algorithm, Batch
from rl_training.algorithms.dqn import taken
from rl_training.algorithms.optim import Optim, Target
from rl_training.models.policies import EpsilonGreedyPolicy
from rl_training.objectives.td import huber, td_target


class DiscreteBCQAlgorithm(Algorithm):
    """One loss of three terms: errors of the values, imitation of the data, and small logits."""

    policy: EpsilonGreedyPolicy

    def __init__(self, config: Any, policy: EpsilonGreedyPolicy) -> None:
        super().__init__()
        self.config, self.policy = config, policy
        self.optim = Optim(self, ["policy.net"], config.learning_rate)
        self.target = Target(self, "policy.net", config.tau)

    def next_value(self, obs: Any) -> Tensor:
        """The target network's value of the action that the online network would do."""
        return taken(self.target.net.both(obs)[0], self.policy.net(obs).argmax(-1))

    def loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        with torch.no_grad():
            target = td_target(batch["reward"], batch["discount"], self.next_value(batch["next_obs"]))
        net: Any = self.policy.net
        q, logits = net.both(batch["obs"])
        td = taken(q, batch["action"]) - target
        value_loss = (batch["weight"] * huber(td)).mean()
        imitation_loss = F.cross_entropy(logits, batch["action"])
        loss = value_loss + imitation_loss + self.config.logit_penalty * logits.square().mean()
        metrics = {"loss": loss, "value_loss": value_loss, "imitation_loss": imitation_loss, "q": q.mean()}
        return loss, {name: value.detach() for name, value in metrics.items()} | {"td": td.detach()}

    def update(self, batch: Batch, **static: Any) -> Batch:
        out = self.optim.minimize("loss", self.normalized(batch))
        self.target.update()
        return out
