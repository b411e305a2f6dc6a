"""What the tests of the on-policy actor-critics share."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rl_training.algorithms.a2c import A2CAlgorithm, A2CConfig
from rl_training.algorithms.rollout import actor_critic
from rl_training.algorithms.trpo import TRPOAlgorithm, TRPOConfig
from rl_training.config import ModelConfig
from rl_training.specs import ActionSpec, Leaf, ObsSpec

RULES: dict[str, tuple[Any, Any]] = {"a2c": (A2CAlgorithm, A2CConfig), "trpo": (TRPOAlgorithm, TRPOConfig)}
ACTIONS = {
    "discrete": ActionSpec("discrete", (4,)),
    "multidiscrete": ActionSpec("multidiscrete", (3, 2)),
    "continuous": ActionSpec("continuous", dim=2),
}
OBS = ObsSpec((Leaf("", (3,), "float32"),))


def rule(name: str, action: ActionSpec, hidden: tuple[int, ...] = (16, 16), log_std: float = 0.0, **settings: Any) -> Any:
    """A learning rule for observations of three numbers."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    algorithm, config = RULES[name]
    model = ModelConfig(hidden=hidden, **({"log_std_init": log_std} if action.kind == "continuous" else {}))
    made = algorithm(config(**settings), *actor_critic(OBS, action, model))
    made.bind()
    return made


def bandit(name: str, action: ActionSpec, **settings: Any) -> Any:
    """A rule whose outputs are its biases, all 0 at first: there is one state, of zeros."""
    made = rule(name, action, hidden=(), **settings)
    for parameter in (*made.policy.net.parameters(), *made.critic.parameters()):
        parameter.data.zero_()
    return made


def rollout(made: Any, rows: int = 64, seed: int = 0, spread: float = 1.0) -> dict[str, Any]:
    """A batch as the buffer gives it: what the policy did in random states, and random advantages."""
    generator = torch.Generator().manual_seed(seed)
    obs = torch.randn(rows, 3, generator=generator) * spread
    with torch.no_grad():
        outputs = made.policy.net(obs)
        action = torch.from_numpy(made.policy.choose(outputs.numpy(), np.random.default_rng(seed), 0, True))
        log_prob, _ = made.policy.evaluate(outputs, action)
        value = made.critic(obs)
    advantage = torch.randn(rows, generator=generator)
    return {"obs": obs, "action": action, "log_prob": log_prob, "value": value, "advantage": advantage,
            "return": value + advantage}  # fmt: skip


def weights(module: torch.nn.Module) -> bytes:
    """The parameters as they lie in memory."""
    return b"".join(p.detach().numpy().tobytes() for p in module.parameters())
