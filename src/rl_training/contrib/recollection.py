"""Acting by the last steps of an episode, where everything else acts by one observation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rl_training.data.history import History
from rl_training.models.policies import Array
from rl_training.models.return_policy import ReturnPolicy

if TYPE_CHECKING:
    from rl_training.contrib.decision_transformer import DecisionTransformer


class Recollecting:
    """Environments that are looked on while they are played, and the actor that remembers what it saw."""

    def __init__(self, policy: ReturnPolicy, envs: Any, context: int) -> None:
        self.policy, self.envs, self.num_envs, self.context = policy, envs, envs.num_envs, context
        self.scale = float(policy.scale)

    def reset(self, seed: int | None = None) -> Any:
        self.history = History(*self.policy.spec, self.num_envs, self.context, float(self.policy.target) / self.scale)
        return self.envs.reset(seed)

    def refresh(self) -> None:
        """It acts with the policy itself, wherever that is."""

    def act(self, obs: Any, rng: np.random.Generator, step: int = 0, explore: bool = False) -> Array:
        return self.policy.choose(self.policy.respond(self.history.see(obs)), rng, step, explore)

    def step(self, action: Array) -> Any:
        result = self.envs.step(action)
        over = result.terminated | result.truncated
        if result.valid is not None:
            over = over | ~result.valid  # a step that an autoreset made up: the episode begins after it
        self.history.did(action, result.reward / self.scale, over)
        return result


class Episode:
    """`act(obs)`, then `reward(r)` for what it earned, step by step; observations and actions in the environment's own form."""

    def __init__(self, agent: DecisionTransformer, context: int, target_return: float | None) -> None:
        policy: Any = agent.parts.algorithm.policy
        self.agent, self.policy = agent, policy
        self.scale = float(self.policy.scale)
        target = float(self.policy.target) if target_return is None else target_return
        obs_spec, action_spec = self.policy.spec
        self.history = History(obs_spec, action_spec, 1, context, target / self.scale)

    def act(self, obs: Any, deterministic: bool = True) -> Array:
        """The action for the next observation of the episode."""
        canonical, _ = self.agent.canonical(obs)
        outputs = self.policy.respond(self.history.see(canonical))
        self.action = self.policy.choose(outputs, self.agent.rng, 0, explore=not deterministic)
        return self.agent.in_units(self.action)[0]

    def reward(self, reward: float) -> None:
        """What the last action earned: so much less is wanted of the rest."""
        self.history.did(self.action, np.array([reward / self.scale], np.float32), np.array([False]))
