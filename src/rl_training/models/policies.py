"""What acts. A policy's network gives the parameters of a distribution; `choose` turns them into actions.

The network runs in torch (or, for small networks on the CPU, in NumPy on live views of the parameters); choosing is always NumPy
with the collector's own generator, so that acting is the same computation everywhere and never touches the learner's randomness.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rl_training.config import ModelConfig
from rl_training.errors import ConfigError
from rl_training.models import distributions as dist
from rl_training.models.encoders import make_encoder
from rl_training.models.mlp import Tanh, mlp
from rl_training.models.normalize import Normalizer
from rl_training.specs import ActionSpec, ObsSpec

Array = NDArray[Any]
LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0


class Policy(nn.Module):
    """`forward(raw observation)` gives distribution parameters; losses call `net` on observations already normalized."""

    net: nn.Module
    head: Any  # makes what `choose` takes of the network's outputs

    def __init__(self, obs: ObsSpec, model: ModelConfig) -> None:
        super().__init__()
        self.head = nn.Identity()
        if model.normalize_obs and (obs.is_dict or obs.leaves[0].is_image):
            raise ConfigError(
                "model.normalize_obs scales plain vector observations; these are a Dict or images.",
                fix="Set --model.normalize-obs false (images are scaled to 0..1 anyway)",
            )
        self.normalizer = Normalizer(obs.leaves[0].shape) if model.normalize_obs else None

    def normalize(self, obs: Any) -> Any:
        return obs if self.normalizer is None else self.normalizer(obs)

    def forward(self, obs: Any) -> Tensor:
        return self.head(self.net(self.normalize(obs)))

    def choose(self, outputs: Array, rng: np.random.Generator, step: int, explore: bool) -> Array:
        """Actions for a batch of network outputs; greedy unless `explore`. `step` counts env steps so far."""
        raise NotImplementedError()


def likeliest(scores: Array, nvec: tuple[int, ...]) -> Array:
    """The best of each of several discrete choices, whose scores stand side by side: (B, sum(nvec)) -> (B, len(nvec))."""
    ends = np.cumsum(nvec)[:-1]
    return np.stack([part.argmax(-1) for part in np.split(scores, ends, -1)], -1)


class CategoricalPolicy(Policy):
    """Softmax over one or several discrete choices (logits of a MultiDiscrete space side by side)."""

    def __init__(self, obs: ObsSpec, action: ActionSpec, model: ModelConfig) -> None:
        super().__init__(obs, model)
        if model.log_std_init != ModelConfig.log_std_init:
            raise ConfigError(
                "model.log_std_init is the deviation of continuous actions; these are discrete.", fix="Leave out log_std_init"
            )
        self.kind, self.nvec = action.kind, action.nvec
        encoder, features = make_encoder(obs, model)
        self.net = nn.Sequential(encoder, *mlp(features, sum(action.nvec), model, output_gain=0.01))

    def log_prob(self, obs: Any, action: Tensor) -> Tensor:
        """Log-probability of stored actions for normalized observations, (B,)."""
        return self.evaluate(self.net(obs), action)[0]

    def evaluate(self, logits: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probability of `action` and entropy, both (B,)."""
        if self.kind == "discrete":
            return dist.categorical_log_prob(logits, action), dist.categorical_entropy(logits)
        parts = list(zip(logits.split(self.nvec, -1), action.unbind(-1)))
        log_prob = torch.stack([dist.categorical_log_prob(part, a) for part, a in parts]).sum(0)
        return log_prob, torch.stack([dist.categorical_entropy(part) for part, _ in parts]).sum(0)

    def distribution(self, logits: Tensor) -> tuple[Tensor, ...]:
        """All that decides the actions."""
        return (logits,)

    def kl(self, old: tuple[Tensor, ...], new: tuple[Tensor, ...]) -> Tensor:
        """KL(old || new) of two distributions per row, summed over the choices."""
        parts = zip(old[0].split(self.nvec, -1), new[0].split(self.nvec, -1))
        return torch.stack([dist.categorical_kl(*part) for part in parts]).sum(0)

    def choose(self, outputs: Array, rng: np.random.Generator, step: int, explore: bool) -> Array:
        # Gumbel-max: argmax(logits - log E) with E ~ Exp(1) samples the softmax without normalizing it.
        scores = outputs - np.log(rng.standard_exponential(outputs.shape, np.float32)) if explore else outputs
        return scores.argmax(-1) if self.kind == "discrete" else likeliest(scores, self.nvec)


class GaussianPolicy(Policy):
    """Unbounded diagonal Gaussian with a state-independent deviation; the env adapter clips what leaves [-1, 1]."""

    def __init__(self, obs: ObsSpec, action: ActionSpec, model: ModelConfig) -> None:
        super().__init__(obs, model)
        encoder, features = make_encoder(obs, model)
        self.net = nn.Sequential(encoder, *mlp(features, action.dim, model, output_gain=0.01))
        self.log_std = nn.Parameter(torch.full((action.dim,), model.log_std_init))

    def evaluate(self, mean: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probability of the unclipped `action` and entropy, both (B,)."""
        log_std = self.log_std.expand_as(mean)
        return dist.gaussian_log_prob(mean, log_std, action), dist.gaussian_entropy(log_std)

    def distribution(self, mean: Tensor) -> tuple[Tensor, ...]:
        """All that decides the actions: means and log deviations."""
        return mean, self.log_std.expand_as(mean)

    def kl(self, old: tuple[Tensor, ...], new: tuple[Tensor, ...]) -> Tensor:
        """KL(old || new) of two distributions per row."""
        return dist.gaussian_kl(*old, *new)

    def choose(self, outputs: Array, rng: np.random.Generator, step: int, explore: bool) -> Array:
        if not explore:
            return outputs
        std = np.exp(self.log_std.detach().cpu().numpy())
        return outputs + std * rng.standard_normal(outputs.shape, np.float32)


class SquashedGaussianPolicy(Policy):
    """tanh of a Gaussian with state-dependent deviation (Haarnoja et al. 2018). `body` makes the network after the encoder."""

    net: nn.Sequential

    def __init__(
        self, obs: ObsSpec, action: ActionSpec, model: ModelConfig, body: Callable[..., nn.Sequential] = mlp
    ) -> None:
        super().__init__(obs, model)
        encoder, features = make_encoder(obs, model)
        self.net = nn.Sequential(encoder, *body(features, 2 * action.dim, model))

    def sample(self, obs: Any) -> tuple[Tensor, Tensor]:
        """A reparametrized action and its log-density for normalized observations."""
        return self.sample_from(self.net(obs))

    def sample_from(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """The same for the network's outputs."""
        mean, log_std = outputs.chunk(2, -1)
        return dist.sample_squashed(mean, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX))

    def log_prob(self, obs: Any, action: Tensor) -> Tensor:
        """Log-density of stored actions for normalized observations, (B,)."""
        mean, log_std = self.net(obs).chunk(2, -1)
        return dist.squashed_log_prob(mean, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX), action)

    def choose(self, outputs: Array, rng: np.random.Generator, step: int, explore: bool) -> Array:
        mean, log_std = np.split(outputs, 2, -1)
        if not explore:
            return np.tanh(mean)
        std = np.exp(log_std.clip(LOG_STD_MIN, LOG_STD_MAX))
        return np.tanh(mean + std * rng.standard_normal(mean.shape, np.float32))


class DeterministicPolicy(Policy):
    """tanh network output, plus clipped Gaussian noise while exploring."""

    def __init__(self, obs: ObsSpec, action: ActionSpec, model: ModelConfig, noise: float) -> None:
        super().__init__(obs, model)
        self.noise = noise
        encoder, features = make_encoder(obs, model)
        self.net = nn.Sequential(encoder, *mlp(features, action.dim, model), Tanh())

    def choose(self, outputs: Array, rng: np.random.Generator, step: int, explore: bool) -> Array:
        if not explore:
            return outputs
        noise = np.float32(self.noise) * rng.standard_normal(outputs.shape, np.float32)
        return (outputs + noise).clip(-1.0, 1.0)


class EpsilonGreedyPolicy(Policy):
    """Greedy in the values that `head` makes of `net`; random with a probability that falls linearly to its final value."""

    def __init__(
        self, obs: ObsSpec, net: nn.Module, head: nn.Module, model: ModelConfig, epsilon: tuple[float, float], steps: int
    ) -> None:
        super().__init__(obs, model)
        self.net, self.head = net, head
        self.start, self.final, self.steps = *epsilon, max(1, steps)

    def epsilon(self, step: int) -> float:
        return self.start + (self.final - self.start) * min(1.0, step / self.steps)

    def choose(self, outputs: Array, rng: np.random.Generator, step: int, explore: bool) -> Array:
        greedy = outputs.argmax(-1)
        if not explore:
            return greedy
        explores = rng.random(greedy.shape) < self.epsilon(step)
        if explores.any():
            greedy[explores] = rng.integers(outputs.shape[-1], size=int(explores.sum()))
        return greedy
