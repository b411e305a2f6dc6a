"""On-policy: the newest rollout, prepared once, then shuffled into minibatches for some epochs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rl_training.data.batch import Batch, Chunk, Draws, Prepare, tree_map
from rl_training.data.gae import gae
from rl_training.data.reward_scale import RewardScaler
from rl_training.state import Tree

FloatArray = NDArray[np.float32]


class RolloutBuffer:
    """Holds `num_steps` steps of `num_envs` environments.

    `obs_shape` and `action_shape` size the arrays of a plain observation; a chunk of another layout (Dict, images) replaces
    them. Fields: obs, action, reward, terminated, truncated, next_obs, and after preparation value, next_value, log_prob.
    """

    def __init__(
        self,
        num_steps: int,
        num_envs: int,
        obs_shape: tuple[int, ...] = (),
        action_shape: tuple[int, ...] = (),
        *,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        epochs: int = 1,
        minibatches: int = 1,
        target_kl: float | None = None,
        whole_first: bool = False,
        scale_rewards: bool = False,
        seed: int = 0,
    ) -> None:
        self.num_steps, self.num_envs = num_steps, num_envs
        self.gamma, self.gae_lambda, self.epochs, self.minibatches = gamma, gae_lambda, epochs, minibatches
        self.target_kl, self._stop, self.whole_first = target_kl, False, whole_first
        self.updates_per_step = (whole_first + epochs * minibatches) / (num_steps * num_envs)
        self.rng = np.random.default_rng(seed)
        self.scaler = RewardScaler(num_envs, gamma) if scale_rewards else None
        lead = (num_steps, num_envs)
        self.data: dict[str, Any] = {
            "obs": np.zeros(lead + obs_shape, np.float32),
            "next_obs": np.zeros(lead + obs_shape, np.float32),
            "action": np.zeros(lead + action_shape, np.float32),
            "terminated": np.zeros(lead, np.bool_),
            "truncated": np.zeros(lead, np.bool_),
        } | {k: np.zeros(lead, np.float32) for k in ("reward", "value", "next_value", "log_prob", "advantage", "return")}

    def add(self, chunk: Chunk) -> None:
        """Take in one whole rollout (T, N, ...); its arrays are used as they are until the next one."""
        if chunk["reward"].shape != (self.num_steps, self.num_envs):
            raise ValueError(f"rollout is {chunk['reward'].shape}, this buffer holds {(self.num_steps, self.num_envs)}")
        self.data |= chunk
        if self.scaler is not None:
            done = chunk["terminated"] | chunk["truncated"]
            self.data["reward"] = self.scaler.scale(chunk["reward"], done, chunk.get("valid"))

    def compute_returns_and_advantages(
        self, last_value: FloatArray, gamma: float, gae_lambda: float
    ) -> tuple[FloatArray, FloatArray]:
        """Fill `advantage` and `return` from `value`, bootstrapping the last step from `last_value` (N,).

        A truncated step bootstraps from its own `next_value`, which must have been set; elsewhere the next row's value is it.
        """
        d = self.data
        cut = d["truncated"] & ~d["terminated"]
        following = np.concatenate([d["value"][1:], np.asarray(last_value, np.float32)[None]])
        d["next_value"] = np.where(cut, d["next_value"], following)
        self._estimate(gamma, gae_lambda)
        return d["return"], d["advantage"]

    def _estimate(self, gamma: float, gae_lambda: float) -> None:
        d = self.data
        d["advantage"] = gae(d["reward"], d["value"], d["next_value"], d["terminated"], d["truncated"], gamma, gae_lambda)
        d["return"] = d["advantage"] + d["value"]

    def batches(self, new: int, prepare: Prepare) -> Iterator[Batch | Draws]:
        """Yield epochs x minibatches batches, with `whole_first` after one of all rows.

        Stops early once the KL estimate exceeds 1.5 x target_kl.
        """
        raw = ("obs", "action", "outputs", "reward", "terminated", "truncated", "next_obs")
        prepared = prepare({k: tree_map(torch.from_numpy, self.data[k]) for k in raw})
        for key in ("value", "next_value", "log_prob"):
            self.data[key] = prepared[key].cpu().numpy()
        self._estimate(self.gamma, self.gae_lambda)
        keys = ("obs", "action", "log_prob", "value", "advantage", "return")
        flat = {k: tree_map(_rows, self.data[k]) for k in keys}
        rows = np.flatnonzero(self.data["valid"]) if "valid" in self.data else np.arange(self.num_steps * self.num_envs)
        if not len(rows):
            return  # autoresets alone
        if len(rows) < self.minibatches:
            rows = self.rng.choice(rows, self.minibatches)
        size = len(rows) // self.minibatches
        self._stop = False
        if self.whole_first:
            yield {k: tree_map(partial(_reordered, rows), v) for k, v in flat.items()}
        for _ in range(self.epochs):
            order = self.rng.permutation(rows)
            # Shuffled once per epoch, so that every minibatch is a contiguous slice.
            shuffled = {k: tree_map(partial(_reordered, order), v) for k, v in flat.items()}
            for start in range(0, size * self.minibatches, size):
                if self._stop:
                    return
                window = slice(start, start + size)
                yield {k: tree_map(itemgetter(window), v) for k, v in shuffled.items()}

    def reside(self, device: torch.device) -> None:
        """A rollout is prepared and shuffled on the host, and moves with its minibatches."""

    def feedback(self, batch: Batch | Draws, out: Batch) -> None:
        if self.target_kl is not None:
            self._stop = float(out["approx_kl"]) > 1.5 * self.target_kl

    def cut(self) -> None:
        """Nothing is kept from one rollout to the next."""

    def state_dict(self) -> dict[str, Tree]:
        """The generator and reward statistics; a rollout is consumed before any checkpoint, so it is not part of the state."""
        scaler = None if self.scaler is None else self.scaler.state_dict()
        return {"rng": self.rng.bit_generator.state, "scaler": scaler}

    def load_state_dict(self, state: dict[str, Tree]) -> None:
        self.rng.bit_generator.state = state["rng"]
        if self.scaler is not None:
            self.scaler.load_state_dict(state["scaler"])


def _rows(array: NDArray[Any]) -> NDArray[Any]:
    return array.reshape(-1, *array.shape[2:])


def _reordered(order: NDArray[np.int64], array: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(array[order])
