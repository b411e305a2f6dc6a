"""Every offline method on the chain: those that bootstrap find a way that no stored episode went, those that cannot do not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from chain import REPEATED, STITCHED, learned_return

from rl_training.algorithms import REGISTRY

QUICK = {"learning_rate": 1e-3}
SEQUENCES = {"hidden": (32, 32), "context": 2, "warmup_updates": 100, "batch_size": 64, "updates": 1000}
SUPPORT = {"vae_hidden": (32, 32), "batch_size": 64}
# algorithm, kind of actions, settings, what its policy earns
CASES: list[tuple[str, str, dict[str, Any], float]] = [
    ("td3_bc", "continuous", QUICK, STITCHED),
    ("iql", "continuous", QUICK | {"expectile": 0.9, "beta": 10.0}, STITCHED),
    ("iql", "continuous", QUICK | {"expectile": 0.7, "beta": 10.0}, STITCHED),
    ("iql", "continuous", QUICK | {"expectile": 0.5, "beta": 10.0}, REPEATED),  # a mean, by which going on from S is worth 0.495
    ("iql", "discrete", QUICK | {"expectile": 0.9, "beta": 10.0}, STITCHED),
    ("iql", "discrete", QUICK | {"expectile": 0.5, "beta": 10.0}, REPEATED),
    ("sac_n", "continuous", QUICK | {"members": 10}, STITCHED),
    ("edac", "continuous", QUICK | {"members": 5}, STITCHED),
    ("bcq", "continuous", QUICK | SUPPORT, STITCHED),
    ("bcq", "discrete", QUICK, STITCHED),
    ("bear", "continuous", QUICK | SUPPORT | {"actor_learning_rate": 1e-3, "warm_start": 600}, STITCHED),
    # Nothing that began in S returned 1, so nothing is known of how it would go on from there.
    ("decision_transformer", "continuous", QUICK | SEQUENCES, REPEATED),
    ("decision_transformer", "discrete", QUICK | SEQUENCES, REPEATED),
]


@pytest.mark.parametrize(("name", "actions", "settings", "expected"), CASES)
def test_the_chain(name: str, actions: str, settings: dict[str, Any], expected: float) -> None:
    torch.set_num_threads(1)
    assert learned_return(name, actions, **settings) == expected


def test_every_offline_method_is_tried() -> None:
    pairs = {(name, actions) for name, actions, _, _ in CASES}
    wanted = {(n, a) for n, entry in REGISTRY.items() if entry.offline for a in entry.actions if a != "multidiscrete"}
    assert wanted - pairs == set(), "add a case for each kind of action"
