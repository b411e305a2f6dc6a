"""Acting by what earlier episodes did on their way to a return (Chen et al. 2021, arXiv:2106.01345)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rl_training.config import ModelConfig
from rl_training.models.policies import Array, Policy
from rl_training.models.transformer import DecisionNet
from rl_training.specs import ActionSpec, ObsSpec


class ReturnPolicy(Policy):
    """What was done on the way to the return that is asked for. Called with observations alone, it takes them for first ones."""

    net: DecisionNet
    target: Tensor
    scale: Tensor
    spec: tuple[ObsSpec, ActionSpec]

    def __init__(self, obs: ObsSpec, action: ActionSpec, model: ModelConfig, net: DecisionNet) -> None:
        super().__init__(obs, model)
        self.net, self.spec, self.discrete = net, (obs, action), action.kind == "discrete"
        self.register_buffer("target", torch.tensor(0.0))
        self.register_buffer("scale", torch.tensor(1.0))

    def answer(self, steps: dict[str, Any]) -> Tensor:
        """Logits, or actions, for the last of some steps with raw observations: (B, K, ...) -> (B, A)."""
        outputs: Tensor = self.net(steps | {"obs": self.normalize(steps["obs"])})[:, -1]
        return outputs if self.discrete else outputs.tanh()

    @torch.no_grad()
    def respond(self, steps: dict[str, Any]) -> Array:
        """The same in acting, from the host and back to it."""
        device = self.target.device
        obs = steps["obs"]
        near = {key: value.to(device) for key, value in steps.items() if key != "obs"}
        near["obs"] = {k: v.to(device) for k, v in obs.items()} if isinstance(obs, dict) else obs.to(device)
        outputs: Array = self.answer(near).cpu().numpy()
        return outputs

    def forward(self, obs: Any) -> Tensor:
        first = {k: v.unsqueeze(1) for k, v in obs.items()} if isinstance(obs, dict) else obs.unsqueeze(1)
        rows = len(next(iter(first.values())) if isinstance(first, dict) else first)
        none = torch.zeros(rows, 1, device=self.target.device)
        action = none.long() if self.discrete else none.unsqueeze(-1).expand(-1, -1, self.net.outputs)
        return self.answer({
            "obs": first, "action": action, "to_go": none + self.target / self.scale, "timestep": none.long(), "mask": none == 0
        })  # fmt: skip

    def choose(self, outputs: Array, rng: np.random.Generator, step: int, explore: bool) -> Array:
        if self.discrete and explore:
            outputs = outputs - np.log(rng.standard_exponential(outputs.shape, np.float32))
        return outputs.argmax(-1) if self.discrete else outputs
