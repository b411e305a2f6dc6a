"""Fitted Q evaluation (Le et al. 2019, arXiv:1903.08738): what a fixed policy is worth, told from stored data alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rl_training.algorithms.base import Algorithm, Batch
from rl_training.algorithms.optim import Optim, Target
from rl_training.models.critics import DiscreteCritic, EnsembleCritic
from rl_training.objectives.td import td_target


class FittedQ(Algorithm):
    """A critic that is fitted to rewards and to its own lagged value of the policy's next action.

    Batches bring that action along as "next_action": the policy does not change, so it is asked once for each row.
    """

    def __init__(self, critic: EnsembleCritic | DiscreteCritic, learning_rate: float, tau: float) -> None:
        super().__init__()
        self.critic = critic
        self.optim = Optim(self, ["critic"], learning_rate)
        self.target = Target(self, "critic", tau)

    def loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        with torch.no_grad():
            following = self.target.net.of_action(batch["next_obs"], batch["next_action"]).mean(0)
            target = td_target(batch["reward"], batch["discount"], following)
        td = self.critic.of_action(batch["obs"], batch["action"]) - target
        loss = td.square().mean(1).sum()
        return loss, {"loss": loss.detach(), "td": td.detach().abs().mean(0)}

    def update(self, batch: Batch, **static: Any) -> Batch:
        out = self.optim.minimize("loss", batch)
        self.target.update()
        return out
