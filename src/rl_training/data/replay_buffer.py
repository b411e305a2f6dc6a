"""Off-policy: a ring of past steps, sampled uniformly or by priority, so many updates per new env step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from rl_training.data.batch import BLOCK, Batch, Chunk, Draws, Prepare
from rl_training.data.priority import PriorityTree
from rl_training.data.relabel import Relabel
from rl_training.data.resident import ResidentRows
from rl_training.data.storage import NO_EXTRAS, Storage
from rl_training.specs import ActionSpec, ObsSpec
from rl_training.state import Tree


class ReplayBuffer:
    """`ratio` updates per env step once `warmup` steps are stored; what is not yet due is kept as credit across checkpoints.

    n-step returns are folded while sampling and never cross an episode end. `priority` is the exponent alpha of prioritized
    replay (0 = uniform); the importance exponent rises from `beta` to 1 over `beta_updates` updates. `relabel` names the
    strategy by which `relabel_ratio` of each batch gets other goals.
    """

    def __init__(
        self,
        obs: ObsSpec,
        action: ActionSpec,
        *,
        capacity: int,
        num_envs: int = 1,
        batch_size: int = 256,
        gamma: float = 0.99,
        ratio: float = 1.0,
        warmup: int = 0,
        n_step: int = 1,
        priority: float = 0.0,
        beta: float = 0.4,
        beta_updates: int = 100_000,
        relabel: str | None = None,
        relabel_ratio: float = 0.8,
        extras: frozenset[str] = NO_EXTRAS,
        seed: int = 0,
    ) -> None:
        self.storage = Storage(obs, action, capacity, num_envs, extras, gamma)
        self.batch_size, self.gamma, self.n_step = batch_size, gamma, n_step
        self.updates_per_step, self.warmup = ratio, warmup
        self.tree = PriorityTree(len(self.storage.rows), priority) if priority else None
        self.beta, self.beta_updates = beta, beta_updates
        self.relabel = Relabel(self.storage, relabel, relabel_ratio, gamma) if relabel else None
        self.rng = np.random.default_rng(seed)
        self.credit, self.sampled = 0.0, 0
        self._ones = torch.ones(batch_size)
        self.resident: ResidentRows | None = None

    def add(self, chunk: Chunk) -> None:
        rows = self.storage.add(chunk)
        if self.tree is not None:
            self.tree.insert(rows)
            if not self.storage.all_valid:
                self.tree.remove(rows[self.storage.rows[rows, -1] == 0])
        if self.resident is not None:
            self.resident.refresh(rows)

    def reside(self, device: torch.device) -> None:
        """Sample on `device` from now on, unless it takes more than the rows: priorities, frames, goals, neighbours."""
        if self.tree is None and self.relabel is None and not self.storage.frames and self.storage.extras is None:
            self.resident = ResidentRows(self.storage, device, self.batch_size, self.n_step, self.gamma)

    def batches(self, new: int, prepare: Prepare) -> Iterator[Batch | Draws]:
        """Yield the updates that `new` env steps have earned; none before the warm-up is stored."""
        if len(self.storage) < max(self.warmup, 1):
            return
        self.credit += new * self.updates_per_step
        while self.credit >= 1.0 - 1e-9:  # ratios such as 0.1 must not lose an update to rounding
            if self.resident is not None and self.storage.always_usable:
                count = min(int(self.credit + 1e-9), BLOCK)
                self.credit -= count
                yield Draws(self.resident, count)
            else:
                self.credit -= 1.0
                yield self.sample(self.batch_size)

    def cut(self) -> None:
        """The stored episodes will not be continued."""
        if len(self.storage):
            self.storage.cut()

    def sample(self, count: int) -> Batch:
        """One batch; `weight` is 1 for uniform sampling."""
        self.sampled += 1
        if self.tree is None:
            index = self.storage.draw(count, self.rng)
            weight = self._ones if count == self.batch_size else torch.ones(count)
        else:
            beta = min(1.0, self.beta + (1.0 - self.beta) * self.sampled / self.beta_updates)
            index, weights = self.tree.sample(count, beta, len(self.storage), self.rng)
            if not self.storage.always_usable and (dead := ~self.storage.usable(index)).any():
                index[dead] = self.storage.draw(int(dead.sum()), self.rng)
            weight = torch.from_numpy(weights)
        batch = self.storage.gather(index, self.n_step, self.gamma)
        if self.relabel is not None:
            batch = self.relabel(batch, index, self.rng)
        return batch | {"weight": weight, "index": torch.from_numpy(index)}

    def feedback(self, batch: Batch | Draws, out: Batch) -> None:
        """Priorities follow the unweighted error of each sampled row."""
        if self.tree is not None and not isinstance(batch, Draws):
            self.tree.update(batch["index"].numpy(), out["td"].detach().cpu().numpy().astype(np.float64))

    def state_dict(self) -> dict[str, Tree]:
        return {
            "storage": self.storage.state_dict(),
            "tree": None if self.tree is None else self.tree.state_dict(len(self.storage)),
            "rng": self.rng.bit_generator.state,
            "credit": self.credit,
            "sampled": self.sampled,
        }

    def load_state_dict(self, state: dict[str, Tree]) -> None:
        self.storage.load_state_dict(state["storage"])
        if self.tree is not None:
            self.tree.load_state_dict(state["tree"])
        self.rng.bit_generator.state = state["rng"]
        self.credit, self.sampled = state["credit"], state["sampled"]
