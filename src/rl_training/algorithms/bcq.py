"""Batch-constrained Q-learning (Fujimoto et al. 2019, arXiv:1812.02900): only actions that the data may have are valued."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rl_training.agent import Q_VALUES_ONLY, Agent, Parts
from rl_training.algorithms.base import Algorithm, Batch
from rl_training.algorithms.discrete_bcq import DiscreteBCQAlgorithm
from rl_training.algorithms.optim import Optim, Target
from rl_training.algorithms.replay import replay_parts
from rl_training.algorithms.supported import SupportedAlgorithm, SupportedConfig, check_candidates
from rl_training.config import TrainConfig, setting
from rl_training.errors import ConfigError
from rl_training.models.candidates import CandidatePolicy, Candidates, Perturbation, PerturbedActor
from rl_training.models.critics import EnsembleCritic
from rl_training.models.imitation import ImitatingQNet
from rl_training.models.policies import EpsilonGreedyPolicy
from rl_training.models.vae import ConditionalVAE
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class BCQConfig(SupportedConfig):
    batch_size: int = setting(100, help="transitions per update", ge=1)
    learning_rate: float = setting(1e-3, help="Adam step size of all networks", gt=0)
    perturbation: float = setting(0.05, help="how far a proposed action may be nudged", ge=0)
    threshold: float = setting(0.3, help="likeness to the likeliest action that an action needs; 1 clones, 0 is DQN", ge=0, le=1)
    logit_penalty: float = setting(0.01, help="weight of the squared logits of the imitation", ge=0)
    epsilon: float = setting(0.05, help="probability of a random action while exploring", ge=0, le=1)


# Settings without meaning for the other kind of action.
CONTINUOUS = ("pessimism", "next_actions", "candidates", "vae_hidden", "perturbation")
DISCRETE = ("threshold", "logit_penalty", "epsilon")


class BCQAlgorithm(SupportedAlgorithm):
    """A model of the data's actions proposes, a small network nudges, and the critics choose."""

    def __init__(self, config: BCQConfig, policy: CandidatePolicy) -> None:
        super().__init__(config, policy)
        self.vae_optim = Optim(self, ["policy.net.actor.vae"], config.learning_rate)
        self.actor_optim = Optim(self, ["policy.net.actor.perturbation"], config.learning_rate)
        self.actor_target = Target(self, "policy.net.actor.perturbation", config.tau)

    @property
    def vae(self) -> ConditionalVAE:
        vae: Any = self.policy.net.actor.vae
        return vae

    def next_actions(self, obs: Any, rows: int) -> Tensor:
        latent = self.vae.latents(rows, self.config.next_actions, device=self.critic_target.flat.device)
        actions: Tensor = self.actor_target(obs, self.vae.decode(obs, latent).tanh())
        return actions

    def actor_loss(self, batch: Batch) -> tuple[Tensor, Batch]:
        with torch.no_grad():
            latent = self.vae.latents(len(batch["reward"]), device=self.critic_target.flat.device)
            proposed = self.vae.decode(batch["obs"], latent).tanh()
        nudge: Any = self.policy.net.actor.perturbation
        loss = -self.critic.first(batch["obs"], nudge(batch["obs"], proposed)).mean()
        return loss, {"actor_loss": loss.detach()}

    def update(self, batch: Batch, **static: Any) -> Batch:
        batch = self.normalized(batch)
        out = self.vae_optim.minimize("vae_loss", batch)
        out |= self.critic_optim.minimize("critic_loss", batch)
        out |= self.actor_optim.minimize("actor_loss", batch)
        self.critic_target.update()
        self.actor_target.update()
        return out


class BCQ(Agent):
    """BCQ on stored data. `BCQ("Pendulum-v1", dataset="data/mixed", offline_updates=100_000).learn()`."""

    name = "bcq"
    config_class = BCQConfig
    defaults: ClassVar[dict[str, Any]] = {
        "model.hidden": (400, 300), "model.activation": "relu", "model.init": "default", "total_steps": 0,
    }  # fmt: skip
    ignores = (*Q_VALUES_ONLY, "normalize_reward", "log_std_init")

    @classmethod
    def build(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Parts:
        check_kind(config.algorithm, action)
        algorithm = cls.continuous(config, obs, action) if action.kind == "continuous" else cls.discrete(config, obs, action)
        return replay_parts(config, obs, action, algorithm)

    @classmethod
    def continuous(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Algorithm:
        c: BCQConfig = config.algorithm
        check_candidates(c)
        vae = ConditionalVAE(obs, action, config.model, c.vae_hidden)
        actor = PerturbedActor(vae, Perturbation(obs, action, config.model, c.perturbation))
        critic = EnsembleCritic(obs, action, config.model, members=2)
        net = Candidates(actor, critic, vae.latents(c.candidates))
        return BCQAlgorithm(c, CandidatePolicy(obs, config.model, net, c.next_actions))

    @classmethod
    def discrete(cls, config: TrainConfig, obs: ObsSpec, action: ActionSpec) -> Algorithm:
        c: BCQConfig = config.algorithm
        net = ImitatingQNet(obs, action, config.model, c.threshold)
        policy = EpsilonGreedyPolicy(obs, net, nn.Identity(), config.model, (c.epsilon, c.epsilon), steps=1)
        return DiscreteBCQAlgorithm(c, policy)


def check_kind(c: BCQConfig, action: ActionSpec) -> None:
    """Refuse settings that are about the other kind of action."""
    for name in DISCRETE if action.kind == "continuous" else CONTINUOUS:
        usual = getattr(BCQConfig(), name)
        if getattr(c, name) != usual:
            raise ConfigError(
                f"algorithm.{name} = {getattr(c, name)} has no effect on {action.kind} actions.",
                fix=f"Leave out {name} (its default is {usual})",
            )
