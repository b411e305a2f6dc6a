"""Acting: observations in, actions out."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rl_training.data.batch import tree_map
from rl_training.models.noisy import Perturbed, perturbed
from rl_training.models.policies import Policy
from rl_training.runtime.numpy_forms import numpy_policy

Array = NDArray[Any]


class Actor:
    """Runs a policy's network and its choice of action.

    A network with a NumPy form acts on the CPU wherever it learns: a step of a few rows costs less there than the launches of its
    kernels. Beside a policy on another device it acts with a copy, which `refresh` brings up to date.
    """

    def __init__(self, policy: Policy) -> None:
        self.device = next(policy.parameters()).device
        near = policy if self.device.type == "cpu" else copy.deepcopy(policy).cpu()
        self._step = numpy_policy(near)
        self.policy = policy if self._step is None else near
        self._copied = [] if self.policy is policy else list(zip(_tensors(near), _tensors(policy)))
        self.noisy = [layer for layer in self.policy.modules() if isinstance(layer, Perturbed)]

    @torch.no_grad()
    def refresh(self) -> None:
        """Act with what has been learned up to now; to be called before acting that follows updates."""
        for mine, theirs in self._copied:
            mine.copy_(theirs, non_blocking=True)
        if self._copied and self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

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


def _tensors(policy: Policy) -> list[Tensor]:
    return [*policy.parameters(), *policy.buffers()]
