"""Every offline method on the chain: those that bootstrap find a way that no stored episode went, those that cannot do not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from chain import REPEATED, STITCHED, learned_return

from rl_training.algorithms import REGISTRY

QUICK = {"learning_rate": 1e-3}
# algorithm, kind of actions, settings, what its policy earns
CASES: list[tuple[str, str, dict[str, Any], float]] = [
    ("td3_bc", "continuous", QUICK, STITCHED),
    ("iql", "continuous", QUICK | {"expectile": 0.9, "beta": 10.0}, STITCHED),
    ("iql", "continuous", QUICK | {"expectile": 0.7, "beta": 10.0}, STITCHED),
    ("iql", "continuous", QUICK | {"expectile": 0.5, "beta": 10.0}, REPEATED),  # a mean, by which going on from S is worth 0.495
    ("iql", "discrete", QUICK | {"expectile": 0.9, "beta": 10.0}, STITCHED),
    ("iql", "discrete", QUICK | {"expectile": 0.5, "beta": 10.0}, REPEATED),
    ("awac", "continuous", QUICK | {"temperature": 0.1}, STITCHED),
    ("crr", "continuous", QUICK, STITCHED),
    ("crr", "continuous", QUICK | {"filter": "exponential", "temperature": 0.1}, STITCHED),
    # Stored episodes as they went: from M they are worth the mean of both, and going on from S led to nothing.
    ("marwil", "continuous", QUICK | {"norm_rate": 0.01}, REPEATED),
    ("marwil", "discrete", QUICK | {"norm_rate": 0.01}, REPEATED),
    ("awr", "continuous", QUICK | {"td_lambda": 1.0}, REPEATED),
    ("awr", "discrete", QUICK | {"td_lambda": 1.0}, REPEATED),
    # Of episodes from S both kinds are stored, as often; the better two thirds of all have the one that earns 0.6.
    ("bc", "continuous", QUICK | {"keep_best": 2 / 3}, REPEATED),
    ("bc", "continuous", QUICK | {"keep_best": 2 / 3, "loss": "likelihood"}, REPEATED),
    ("bc", "discrete", QUICK | {"keep_best": 2 / 3}, REPEATED),
]


@pytest.mark.parametrize(("name", "actions", "settings", "expected"), CASES)
def test_the_chain(name: str, actions: str, settings: dict[str, Any], expected: float) -> None:
    torch.set_num_threads(1)
    assert learned_return(name, actions, **settings) == expected


def test_every_offline_method_is_tried() -> None:
    pairs = {(name, actions) for name, actions, _, _ in CASES}
    wanted = {(n, a) for n, entry in REGISTRY.items() if entry.offline for a in entry.actions if a != "multidiscrete"}
    assert wanted - pairs == set(), "add a case for each kind of action"
