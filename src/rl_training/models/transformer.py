"""A causal transformer over the returns-to-go, observations and actions of consecutive steps (Chen et al. 2021)."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_training.config import ModelConfig
from rl_training.errors import ConfigError
from rl_training.models.encoders import make_encoder
from rl_training.models.mlp import ACTIVATIONS, EXPANSION, hidden_gain, initialize
from rl_training.specs import ActionSpec, ObsSpec

TOKENS = 3  # of each step: return-to-go, observation, action


def drop(x: Tensor, p: float) -> Tensor:
    """Zero each entry with probability p and scale up the rest. From uniform numbers, which compiled programs draw alike."""
    return x * (torch.rand(x.shape, device=x.device) >= p) / (1.0 - p) if p else x


class Block(nn.Module):
    """Self-attention, then two layers, each added to what comes in and applied to its normalization."""

    def __init__(self, width: int, heads: int, model: ModelConfig) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention, self.norm_layers = nn.LayerNorm(width), nn.LayerNorm(width)
        started = partial(initialize, scheme=model.init, gain=1.0)
        self.mix, self.merge = started(nn.Linear(width, 3 * width)), started(nn.Linear(width, width))
        widen = initialize(nn.Linear(width, EXPANSION * width), model.init, hidden_gain(model.activation))
        self.layers = nn.Sequential(widen, ACTIVATIONS[model.activation](), started(nn.Linear(EXPANSION * width, width)))

    def forward(self, x: Tensor, sees: Tensor, dropout: float) -> Tensor:
        query, key, value = self.mix(self.norm_attention(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=sees)
        x = x + drop(self.merge(mixed.transpose(1, 2).flatten(2)), dropout)
        return x + drop(self.layers(self.norm_layers(x)), dropout)


class DecisionNet(nn.Module):
    """Steps (B, K, ...) -> (B, K, outputs), each from its own return-to-go and observation and from all that came before."""

    sees: Tensor

    def __init__(
        self, obs: ObsSpec, action: ActionSpec, model: ModelConfig, *, context: int, heads: int, max_steps: int
    ) -> None:
        super().__init__()
        width = one_width(model, heads)
        self.max_steps = max_steps
        self.encoder, features = make_encoder(obs, model)
        linear = partial(initialize, scheme=model.init, gain=1.0)
        self.embed_obs, self.embed_to_go = linear(nn.Linear(features, width)), linear(nn.Linear(1, width))
        discrete = action.kind == "discrete"
        self.outputs = action.n if discrete else action.dim
        self.embed_action = nn.Embedding(self.outputs, width) if discrete else linear(nn.Linear(self.outputs, width))
        self.embed_time = nn.Embedding(max_steps, width)
        self.norm, self.final_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(width, heads, model) for _ in model.hidden)
        self.head = linear(nn.Linear(width, self.outputs))
        causal = torch.ones(TOKENS * context, TOKENS * context, dtype=torch.bool).tril()
        self.register_buffer("sees", causal, persistent=False)

    def forward(self, steps: dict[str, Any], dropout: float = 0.0) -> Tensor:
        mask = steps["mask"]
        batch, context = mask.shape
        obs = steps["obs"]
        flat = {k: v.flatten(0, 1) for k, v in obs.items()} if isinstance(obs, dict) else obs.flatten(0, 1)
        tokens = torch.stack([
            self.embed_to_go(steps["to_go"].unsqueeze(-1)),
            self.embed_obs(self.encoder(flat)).unflatten(0, (batch, context)),
            self.embed_action(steps["action"]),
        ], 2) + self.embed_time(steps["timestep"].clamp(max=self.max_steps - 1)).unsqueeze(2)  # fmt: skip
        x = drop(self.norm(tokens.flatten(1, 2)), dropout)
        # Nobody looks at padding but padding itself, which must look at something.
        size = TOKENS * context
        known = mask.repeat_interleave(TOKENS, 1)[:, None, None]
        sees = self.sees[:size, :size] & (known | torch.eye(size, dtype=torch.bool, device=mask.device))
        for block in self.blocks:
            x = block(x, sees, dropout)
        # From the observation's token: the action's would know the answer.
        return self.head(self.final_norm(x[:, 1::TOKENS]))


def one_width(model: ModelConfig, heads: int) -> int:
    """The width of all blocks."""
    widths = set(model.hidden)
    if len(widths) != 1:
        raise ConfigError(
            f"model.hidden = {tuple(model.hidden)}: a transformer has one block per number, and all have the same width.",
            fix="Give --model.hidden 128,128,128",
        )
    (width,) = widths
    if width % heads:
        raise ConfigError(
            f"algorithm.heads = {heads} do not divide a width of {width}.", fix="Set --algorithm.heads 1, or change model.hidden"
        )
    return width
