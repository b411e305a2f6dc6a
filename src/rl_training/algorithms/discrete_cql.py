"""Conservative Q-learning for discrete actions (Kumar et al. 2020, arXiv:2006.04779): Double DQN and the conservative term."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from torch import Tensor, nn

from rl_training.agent import Parts
from rl_training.algorithms.base import Batch
from rl_training.algorithms.conservative import Conservative
from rl_training.algorithms.dqn import DQNAlgorithm, DQNConfig, taken
from rl_training.algorithms.optim import Optim
from rl_training.algorithms.replay import replay_parts
from rl_training.config import TrainConfig
from rl_training.models.policies import EpsilonGreedyPolicy
from rl_training.models.q_nets import q_net
from rl_training.specs import ActionSpec, ObsSpec


class DiscreteCQLAlgorithm(DQNAlgorithm):
    """Double DQN with a target that follows slowly; the soft maximum over all actions is pushed down, the data's action up."""

    def __init__(self, config: DQNConfig, policy: EpsilonGreedyPolicy, conservative: Conservative) -> None:
        super().__init__(config, policy, sync_every=1)
        self.conservative = conservative
        held = conservative.gap_target is not None
        self.multiplier_optim = Optim(self, ["conservative"], config.learning_rate) if held else None

    def loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        q = self.policy.net(batch["obs"])
        loss, out = self.td_loss(q, batch)
        penalty, gaps = self.conservative(self.conservative.gap(q.T, taken(q, batch["action"])))
        return loss + penalty, out | gaps

    def multiplier_loss(self, gap: Tensor) -> tuple[Tensor, Batch]:
        return self.conservative.multiplier_loss(gap)

    def update(self, batch: Batch, sync: Hashable = False, **static: Hashable) -> Batch:
        out = super().update(batch, sync)
        if self.multiplier_optim is not None:
            out |= self.multiplier_optim.minimize("multiplier_loss", out["gap"])
        return out


def discrete_parts(config: TrainConfig, obs: ObsSpec, action: ActionSpec, conservative: Conservative) -> Parts:
    """What CQL is for discrete actions."""
    c: Any = config.algorithm
    policy = EpsilonGreedyPolicy(obs, q_net(obs, action, config.model), nn.Identity(), config.model, (c.epsilon, c.epsilon), 1)
    rule = DiscreteCQLAlgorithm(DQNConfig(learning_rate=c.learning_rate, tau=c.tau), policy, conservative)
    return replay_parts(config, obs, action, rule)
