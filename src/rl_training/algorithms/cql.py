"""Conservative Q-learning (Kumar et al. 2020, arXiv:2006.04779): SAC, or Double DQN, that values unseen actions low."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from rl_training.agent import Parts
from rl_training.algorithms.base import Algorithm, Batch
from rl_training.algorithms.conservative import Conservative
from rl_training.algorithms.discrete_cql import discrete_parts
from rl_training.algorithms.optim import Optim
from rl_training.algorithms.sac import SAC, SACAlgorithm, SACConfig
from rl_training.config import TrainConfig, setting
from rl_training.errors import ConfigError
from rl_training.models.critics import EnsembleCritic
from rl_training.models.policies import SquashedGaussianPolicy
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class ConservativeConfig(SACConfig):
    learning_rate: float = setting(3e-4, help="Adam step size of critics, temperature and multiplier", gt=0)
    actor_learning_rate: float = setting(1e-4, help="Adam step size of the actor", gt=0)
    penalty: float = setting(5.0, help="weight of the conservative term; relative to the scale of rewards", ge=0)
    samples: int = setting(10, help="actions from each of three sources that are pushed down per row", ge=1)
    variant: str = setting(
        "h", help="h: sampled actions weigh by their densities; rho: they do not, and the data's action is one of them",
        choices=("h", "rho"),
    )  # fmt: skip
    softness: float = setting(1.0, help="temperature of the soft maximum over actions that are pushed down", gt=0)
    gap_min: float | None = setting(None, help="gaps between that maximum and the data's action count from here on; none: all")
    gap_max: float | None = setting(None, help="and up to here; none: all")
    gap_target: float | None = setting(None, help="hold the mean gap here by a learned multiplier of penalty; none: fixed")
    backup_entropy: bool = setting(False, help="count the entropy to come in the target")
    max_target_backup: bool = setting(False, help="take the best of `samples` next actions for the target")
    bc_updates: int = setting(0, help="updates at the start in which the actor clones the data's actions", ge=0)


@dataclass(frozen=True, kw_only=True)
class CQLConfig(ConservativeConfig):
    epsilon: float = setting(0.05, help="probability of random actions while collecting, where actions are discrete", ge=0, le=1)


class CQLAlgorithm(SACAlgorithm):
    """SAC whose critics pay for a soft maximum over random actions and those of the policy here and one step later."""

    config: ConservativeConfig

    def __init__(
        self, config: ConservativeConfig, policy: SquashedGaussianPolicy, critic: EnsembleCritic, target_entropy: float
    ) -> None:
        super().__init__(config, policy, critic, target_entropy)
        self.actor_optim.lr.fill_(config.actor_learning_rate)
        self.conservative = conservative(config)
        held = config.gap_target is not None
        self.multiplier_optim = Optim(self, ["conservative"], config.learning_rate) if held else None

    def schedule(self, n: int) -> dict[str, Hashable]:
        return {"clone": n < self.config.bc_updates}

    def next_value(self, obs: Any) -> Tensor:
        c, outputs = self.config, self.policy.net(obs)
        actions, log_prob = self.policy.sample_from(outputs.repeat(c.samples if c.max_target_backup else 1, 1, 1))
        q = self.target.net.of_many(obs, actions.movedim(0, 1)).min(0).values.T
        best = q.argmax(0, keepdim=True)
        value, log_prob = q.gather(0, best)[0], log_prob.gather(0, best)[0]
        return value - self.log_alpha.exp() * log_prob if c.backup_entropy else value

    @torch.no_grad()
    def proposals(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Random actions, the policy's and those it would take one step later, (3 samples, B, A), and their log-densities."""
        n, shape = self.config.samples, batch["action"].shape
        outputs = torch.stack([self.policy.net(batch["obs"]), self.policy.net(batch["next_obs"])])
        actions, log_prob = self.policy.sample_from(outputs.repeat_interleave(n, 0))
        random = 2.0 * torch.rand(n, *shape, device=actions.device) - 1.0
        uniform = log_prob.new_full((n, shape[0]), -shape[1] * math.log(2.0))
        return torch.cat([random, actions]), torch.cat([uniform, log_prob])

    def pushed_down(self, q: Tensor, log_density: Tensor, batch: Batch) -> Tensor:
        """What the soft maximum is over, given the values of the data's action and the proposed ones, (members, 1 + 3n, B)."""
        return q if self.config.variant == "rho" else q[:, 1:] - log_density

    def critic_loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        actions, log_density = self.proposals(batch)
        asked = torch.cat([batch["action"][None], actions]).movedim(0, 1)
        q = self.critic.of_many(batch["obs"], asked).movedim(-1, 1).contiguous()  # all in one pass
        loss, out = self.td_loss(q[:, 0], batch)
        penalty, gaps = self.conservative(self.conservative.gap(self.pushed_down(q, log_density, batch), q[:, 0]))
        return loss + penalty, out | gaps

    def cloning_loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        _, log_prob = self.policy.sample(batch["obs"])
        stored = self.policy.log_prob(batch["obs"], batch["action"])
        loss = (self.log_alpha.exp().detach() * log_prob - stored).mean()
        return loss, {"actor_loss": loss.detach(), "entropy": -log_prob.detach().mean()}

    def multiplier_loss(self, gap: Tensor) -> tuple[Tensor, Batch]:
        return self.conservative.multiplier_loss(gap)

    def update(self, batch: Batch, clone: Hashable = False, **static: Hashable) -> Batch:
        batch = self.normalized(batch)
        out = self.critic_optim.minimize("critic_loss", batch)
        out |= self.actor_optim.minimize("cloning_loss" if clone else "actor_loss", batch)
        if self.config.learn_alpha:
            out |= self.alpha_optim.minimize("alpha_loss", out["entropy"])
        if self.multiplier_optim is not None:
            out |= self.multiplier_optim.minimize("multiplier_loss", out["gap"])
        self.target.update()
        return out


def conservative(c: ConservativeConfig) -> Conservative:
    """The term as configured."""
    return Conservative(c.penalty, c.softness, (c.gap_min, c.gap_max), c.gap_target)


CONTINUOUS_ONLY = (
    "noise_correlation", "alpha", "learn_alpha", "target_entropy", "actor_learning_rate", "samples", "variant", "backup_entropy",
    "max_target_backup", "bc_updates",
)  # fmt: skip
DISCRETE_ONLY = ("epsilon",)


class CQL(SAC):
    """CQL on stored data, then online. `CQL("Pendulum-v1", dataset="data/mixed", offline_updates=100_000).learn()`."""

    name = "cql"
    config_class: ClassVar[type] = CQLConfig
    algorithm: ClassVar[type[CQLAlgorithm]] = CQLAlgorithm
    defaults: ClassVar[dict[str, Any]] = SAC.defaults | {"model.hidden": (256, 256, 256), "total_steps": 0}

    @classmethod
    def build(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Parts:
        continuous = action.kind == "continuous"
        for name in DISCRETE_ONLY if continuous else CONTINUOUS_ONLY:
            given, usual = (getattr(c, name, None) for c in (config.algorithm, config.algorithm.__class__))
            if given != usual:
                raise ConfigError(f"algorithm.{name} = {given} has no meaning for {action.kind} actions.", fix="Leave it out")
        if continuous:
            return super().build(config, obs, action)
        return discrete_parts(config, obs, action, conservative(config.algorithm))

    @classmethod
    def rule(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec, target_entropy: float) -> Algorithm:
        policy = SquashedGaussianPolicy(obs, action, config.model)
        return cls.algorithm(config.algorithm, policy, EnsembleCritic(obs, action, config.model, members=2), target_entropy)
