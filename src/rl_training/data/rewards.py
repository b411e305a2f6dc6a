"""Changes of rewards that offline methods were published with: clip, then an affine map that is fitted to the dataset once.

A run makes the same change to the rewards of its own env steps later, and never to those that it reports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rl_training.errors import ConfigError

if TYPE_CHECKING:
    from rl_training.data.dataset import Dataset


@dataclass(frozen=True)
class RewardMap:
    """reward -> clip(reward) * scale + bias."""

    scale: float = 1.0
    bias: float = 0.0
    clip: float | None = None

    def __call__(self, reward: NDArray[Any]) -> NDArray[np.float32]:
        clipped = reward if self.clip is None else reward.clip(-self.clip, self.clip)
        return (clipped * self.scale + self.bias).astype(np.float32)

    def then(self, scale: float, bias: float) -> RewardMap:
        """This map, and another affine one after it."""
        return replace(self, scale=self.scale * scale, bias=self.bias * scale + bias)


def _by_range(data: Dataset, unit: float) -> RewardMap:
    """Episode returns then differ by at most `unit`."""
    spread = data.return_range()
    if not spread > 0:
        raise ConfigError(
            f"All episodes of {data.name} return the same, so rewards cannot be scaled by the range of returns.",
            fix="Use --data.reward none",
        )
    return RewardMap(unit / spread)


def _standardized(data: Dataset) -> RewardMap:
    mean, std = float(data.reward.mean(dtype=np.float64)), float(data.reward.std(dtype=np.float64))
    if not std > 0:
        raise ConfigError(f"All rewards of {data.name} are {mean:g}: they cannot be standardized.", fix="Use --data.reward none")
    return RewardMap(1 / std, -mean / std)


REWARD_PRESETS: dict[str, Callable[[Dataset], RewardMap]] = {
    "none": lambda data: RewardMap(),
    "return_range": lambda data: _by_range(data, 1.0),
    "locomotion_iql": lambda data: _by_range(data, 1000.0),  # IQL and XQL on HalfCheetah, Hopper, Walker2d
    "antmaze_iql": lambda data: RewardMap(1.0, -1.0),  # goal 0, else -1; also XQL, AWAC, RLPD
    "antmaze_cql": lambda data: RewardMap(4.0, -2.0),  # goal 2, else -2
    "antmaze_cal_ql": lambda data: RewardMap(10.0, -5.0),  # goal 5, else -5
    "antmaze_rebrac": lambda data: RewardMap(100.0),
    "adroit_cal_ql": lambda data: RewardMap(10.0, 5.0),  # binary rewards of -1 and 0 become -5 and 5
    "standardize": _standardized,  # EDAC on Adroit
    "clip": lambda data: RewardMap(clip=1.0),  # Atari
}


def reward_map(preset: str, scale: float, bias: float, data: Dataset) -> RewardMap:
    """The change that a config asks for, with the numbers of these data."""
    return REWARD_PRESETS[preset](data).then(scale, bias)
