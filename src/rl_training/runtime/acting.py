"""Acting: observations in, actions out."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rl_training.data.batch import tree_map
from rl_training.models.noisy import NoisyLinear, perturbed
from rl_training.models.policies import Policy
from rl_training.runtime.numpy_forms import numpy_policy

Array = NDArray[Any]


class Actor:
    """Runs a policy's network and its choice of action."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.device = next(policy.parameters()).device
        self.noisy = [layer for layer in policy.modules() if isinstance(layer, NoisyLinear)]
        self._step = numpy_policy(policy) if self.device.type == "cpu" else None

    def act(self, obs: Any, rng: np.random.Generator, step: int = 0, explore: bool = False) -> Array:
        """Actions for a batch of observations (NumPy in, NumPy out)."""
        return self.policy.choose(self.outputs(obs, rng if explore else None), rng, step, explore)

    def outputs(self, obs: Any, rng: np.random.Generator | None = None) -> Array:
        """What the policy chooses from: logits, means, values. Noisy networks explore where `rng` is given."""
        if not self.noisy:
            return self._outputs(obs)
        with perturbed(self.noisy, rng):
            return self._outputs(obs)

    def _outputs(self, obs: Any) -> Array:
        if self._step is not None:
            return self._step(obs)
        with torch.no_grad():
            batch = tree_map(lambda a: torch.from_numpy(np.ascontiguousarray(a)).to(self.device), obs)
            return self.policy(batch).cpu().numpy()
