"""What learns: an Algorithm owns modules, optimizers and losses; it owns no counters, buffers, envs, devices or loops."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor, nn

from rl_training.algorithms.flat import FlatParameters
from rl_training.algorithms.optim import Target
from rl_training.models.policies import Policy

Batch = dict[str, Any]


class Algorithm(nn.Module):
    """A learning rule. Subclasses define loss methods and `update`, which minimizes them by name."""

    policy: Policy

    def schedule(self, n: int) -> dict[str, Hashable]:
        """Static flags of update number n, such as {"actor": n % 2 == 0}; each combination may become its own graph."""
        return {}

    def anneal(self, progress: float) -> None:
        """Set quantities that follow the training progress in [0, 1]; they live in tensors so that graphs see them."""

    def prepare(self, rollout: Batch) -> Batch:
        """Once per rollout and without gradient: add what the losses need (values, log-probabilities)."""
        return rollout

    def update(self, batch: Batch, **static: Hashable) -> Batch:
        """One learning step: 0-d tensors are metrics; "td" (B,) feeds priorities."""
        raise NotImplementedError()

    def normalized(self, batch: Batch) -> Batch:
        """The batch with its observations normalized by the policy's statistics."""
        if self.policy.normalizer is None:
            return batch
        return batch | {k: self.policy.normalize(batch[k]) for k in ("obs", "next_obs") if k in batch}

    def observe(self, chunk: Batch) -> None:
        """Let the policy's normalizer, which exists, take in the observations of a chunk."""
        assert self.policy.normalizer is not None
        obs = chunk["obs"][chunk["valid"]] if "valid" in chunk else chunk["obs"]
        self.policy.normalizer.observe(torch.from_numpy(obs).to(self.policy.normalizer.mean.device))

    def forward(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Dispatch to a method, so that `functional_call` can run any of them with substituted parameters."""
        return getattr(self, method)(*args, **kwargs)

    def bind(self) -> None:
        """Lay every optimizer's parameters and every target in flat vectors; call after any change of device."""
        for kind in (FlatParameters, Target):  # targets follow slices of the optimizers' vectors
            for module in self.modules():
                if isinstance(module, kind):
                    module.bind()

    def flat_views(self) -> dict[str, Tensor]:
        """Parameter name -> view of the flat vector that holds it, for every optimizer and target."""
        views: dict[str, Tensor] = {}
        for name, module in self.named_modules():
            if isinstance(module, FlatParameters):
                views |= module.views(module.flat)
            elif isinstance(module, Target):
                views |= {f"{name}.net.{k}": v for k, v in module.views().items()}
        return views
