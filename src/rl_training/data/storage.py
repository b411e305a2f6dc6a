"""Packed transition storage: one float32 row per step, so that a batch is one gather and n-step is folded while gathering.

Row: [obs leaves | action | next_obs leaves | reward | terminated | truncated | valid]. Image leaves live in a `FrameStore`
instead, where every frame is stored once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rl_training.data.batch import Batch, Chunk
from rl_training.data.chunked import chunked
from rl_training.data.extras import Extras
from rl_training.data.frames import FrameStore
from rl_training.data.rows import gather_windows, make_rows
from rl_training.specs import ActionSpec, ObsSpec
from rl_training.state import Tree

FLAGS = 4  # reward, terminated, truncated, valid
NO_EXTRAS: frozenset[str] = frozenset()


class Storage:
    """A (T, N) ring of transitions; rows are addressed by t * N + n. With `scratch`, they lie on disk in that folder."""

    def __init__(
        self,
        obs: ObsSpec,
        action: ActionSpec,
        capacity: int,
        num_envs: int,
        extras: frozenset[str] = NO_EXTRAS,
        gamma: float = 0.0,
        scratch: Path | None = None,
    ) -> None:
        self.obs, self.action, self.envs = obs, action, num_envs
        self.steps = max(2, -(-capacity // num_envs))  # rounded up: at least `capacity` rows fit
        self.vector_leaves = [leaf for leaf in obs.leaves if not leaf.is_image]
        self.obs_size = obs.vector_size
        self.action_size = int(np.prod(action.shape, dtype=int))
        self.rows = make_rows((self.steps * num_envs, 2 * self.obs_size + self.action_size + FLAGS), scratch)
        self.frames = {leaf.key: FrameStore(leaf, self.steps, num_envs) for leaf in obs.leaves if leaf.is_image}
        self.head = self.filled = 0  # next step to write, steps stored
        self.written = 0  # steps ever written: versions the chunks of a checkpoint
        self.cuts = 0
        self.all_valid = True
        self.extras = Extras(self, extras, gamma) if extras else None

    @property
    def bytes_when_full(self) -> int:
        """Memory that the rows and frames will take; the operating system hands it out as they are written."""
        return self.rows.nbytes + sum(store.frames.nbytes for store in self.frames.values())

    def __len__(self) -> int:
        return self.filled * self.envs

    def add(self, chunk: Chunk) -> NDArray[np.int64]:
        """Write a (T, N, ...) chunk over the oldest steps; return the rows written."""
        length = len(chunk["reward"])
        slots = (self.head + np.arange(length)) % self.steps
        view = self.rows.reshape(self.steps, self.envs, -1)
        # A plain slice where the chunk does not wrap: several times cheaper than an index array for short chunks.
        where = slice(self.head, self.head + length) if self.head + length <= self.steps else slots
        column = 0
        for part in (*self._vectors(chunk["obs"]), chunk["action"], *self._vectors(chunk["next_obs"])):
            flat = part.reshape(length, self.envs, -1)
            view[where, :, column : column + flat.shape[-1]] = flat
            column += flat.shape[-1]
        valid = chunk.get("valid")
        for part in (chunk["reward"], chunk["terminated"], chunk["truncated"], 1.0 if valid is None else valid):
            view[where, :, column] = part
            column += 1
        self.all_valid = self.all_valid and (valid is None or bool(valid.all()))
        done = chunk["terminated"] | chunk["truncated"]
        if valid is not None:
            done = done | ~valid  # a made-up row leads from one episode's end to the next one's start
        for leaf in self.obs.leaves:
            if leaf.is_image:
                obs, after = ((o[leaf.key] if self.obs.is_dict else o) for o in (chunk["obs"], chunk["next_obs"]))
                self.frames[leaf.key].add(obs, after, done, slots)
        self.head = (self.head + length) % self.steps
        self.filled = min(self.filled + length, self.steps)
        self.written += length
        if self.extras is not None:
            self.extras.written(slots)
        return (slots[:, None] * self.envs + np.arange(self.envs)).ravel()

    def cut(self) -> None:
        """End the newest episodes where they are: what comes next does not continue them."""
        newest = self.rows.reshape(self.steps, self.envs, -1)[(self.head - 1) % self.steps]
        newest[:, -2] = newest[:, -3] == 0  # truncated, unless terminated
        self.cuts += 1
        if self.extras is not None:
            self.extras.refill()
        for store in self.frames.values():
            store.ended[:] = True

    def _vectors(self, obs: Any) -> list[Any]:
        return [a for leaf, a in zip(self.obs.leaves, self.obs.arrays(obs)) if not leaf.is_image]

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Uniform rows, with replacement, among those that may be learned from."""
        index = rng.integers(len(self), size=count)
        while not self.always_usable and (bad := ~self.usable(index)).any():
            index[bad] = rng.integers(len(self), size=int(bad.sum()))
        return index

    @property
    def always_usable(self) -> bool:
        return self.all_valid and not self.frames

    def usable(self, index: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Rows that are real steps and still have all their frames."""
        usable = self.rows[index, -1] != 0
        for store in self.frames.values():
            usable &= store.alive(index)
        return usable

    def gather(self, index: NDArray[np.int64], n_step: int, gamma: float) -> Batch:
        """The batch of transitions that start in these rows; its tensors are views of one packed array."""
        s, a = self.obs_size, self.action_size
        out = np.empty((len(index), 2 * s + a + 2), np.float32)
        newest = (self.head - 1) % self.steps
        last = gather_windows(self.rows, index, self.envs, newest, s, a, n_step, gamma, out)
        action = out[:, s : s + a]
        if self.action.dtype == "int64":
            action = action.astype(np.int64)
        batch = {
            "obs": self._observation(out[:, :s], index, after=False),
            "action": torch.from_numpy(action if self.action.shape == (a,) else action.reshape(-1, *self.action.shape)),
            "next_obs": self._observation(out[:, s + a : -2], last, after=True),
            "reward": torch.from_numpy(out[:, -2]),
            "discount": torch.from_numpy(out[:, -1]),
        }
        return batch if self.extras is None else batch | self.extras.gather(index, last)

    def _observation(self, vectors: NDArray[np.float32], index: NDArray[np.int64], after: bool) -> Any:
        # Sliced in NumPy: a view costs a tenth of what it does in torch.
        tensors, start = [], 0
        for leaf in self.obs.leaves:
            if leaf.is_image:
                tensors.append(torch.from_numpy(self.frames[leaf.key].stacks(index, after)))
            else:
                part = vectors[:, start : start + leaf.size]
                tensors.append(torch.from_numpy(part if len(leaf.shape) == 1 else part.reshape(-1, *leaf.shape)))
                start += leaf.size
        return self.obs.build(tensors)

    def state_dict(self) -> dict[str, Tree]:
        """Counters and the rows in chunks; a chunk's version is the number of steps ever written up to its newest row."""
        return {
            "head": self.head, "filled": self.filled, "written": self.written, "cuts": self.cuts, "all_valid": self.all_valid,
            "rows": chunked("rows", self.rows.reshape(self.steps, -1), np.array([self.written]), self.cuts),
            "frames": {key: store.state_dict() for key, store in self.frames.items()},
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Tree]) -> None:
        self.head, self.filled, self.written = state["head"], state["filled"], state["written"]
        self.cuts, self.all_valid = state["cuts"], state["all_valid"]
        state["rows"].fill(self.rows.reshape(self.steps, -1))
        for key, store in self.frames.items():
            store.load_state_dict(state["frames"][key])
        if self.extras is not None:
            self.extras.refill()

