"""Randomness: one named stream per purpose, so that evaluation or logging never shifts what training draws."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from rl_training.state import Tree


def derive(seed: int, *names: str | int) -> int:
    """A 32-bit seed that depends on the run's seed and on what it is for, such as ("evaluation", step)."""
    words = [zlib.crc32(name.encode()) if isinstance(name, str) else name for name in names]
    return int(np.random.SeedSequence([seed, *words]).generate_state(1)[0])


def stream(seed: int, name: str) -> np.random.Generator:
    """An independent generator for one purpose."""
    return np.random.default_rng(derive(seed, name))


def seed_globals(seed: int) -> None:
    """Seed the global generators of Python, NumPy and torch; model initialization and updates draw from torch's."""
    random.seed(derive(seed, "python"))
    np.random.seed(derive(seed, "numpy"))
    torch.manual_seed(derive(seed, "torch"))


@contextmanager
def preserved() -> Iterator[None]:
    """Whatever is drawn inside leaves the global generators as they were."""
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        torch.set_rng_state(before[2])
        if cuda:
            torch.cuda.set_rng_state_all(cuda)


class GlobalRng:
    """The global generators as one part of a checkpoint."""

    def state_dict(self) -> dict[str, Tree]:
        version, words, gauss = random.getstate()
        cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        return {
            "python": [version, list(words), gauss],
            "numpy": np.random.get_state(legacy=False),
            "torch": torch.get_rng_state(),
            "cuda": cuda,
        }

    def load_state_dict(self, state: dict[str, Tree]) -> None:
        version, words, gauss = state["python"]
        random.setstate((version, tuple(words), gauss))
        np.random.set_state(state["numpy"])
        torch.set_rng_state(state["torch"])
        if state["cuda"] and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(state["cuda"])
