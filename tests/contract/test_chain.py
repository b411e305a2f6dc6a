"""Every offline method on the chain: those that bootstrap find a way that no stored episode went, those that cannot do not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from chain import REPEATED, STITCHED, learned_return

from rl_training.algorithms import REGISTRY

QUICK = {"learning_rate": 1e-3}
CONSERVATIVE = QUICK | {"actor_learning_rate": 1e-3, "samples": 4, "batch_size": 64}
SEQUENCES = {"hidden": (32, 32), "context": 2, "warmup_updates": 100, "batch_size": 64, "updates": 1000}
SUPPORT = {"vae_hidden": (32, 32), "batch_size": 64}
# algorithm, kind of actions, settings, what its policy earns
CASES: list[tuple[str, str, dict[str, Any], float]] = [
    ("td3_bc", "continuous", QUICK, STITCHED),
    ("rebrac", "continuous", QUICK | {"batch_size": 256, "actor_bc": 0.05, "critic_bc": 0.05}, STITCHED),
    ("cql", "continuous", CONSERVATIVE | {"penalty": 0.1}, STITCHED),
    ("cql", "continuous", CONSERVATIVE | {"penalty": 3.0}, REPEATED),  # more than what is at stake
    ("cql", "discrete", QUICK | {"penalty": 0.1}, STITCHED),
    ("cal_ql", "continuous", CONSERVATIVE | {"penalty": 0.1}, STITCHED),
    ("iql", "continuous", QUICK | {"expectile": 0.9, "beta": 10.0}, STITCHED),
    ("iql", "continuous", QUICK | {"expectile": 0.7, "beta": 10.0}, STITCHED),
    ("iql", "continuous", QUICK | {"expectile": 0.5, "beta": 10.0}, REPEATED),  # a mean, by which going on from S is worth 0.495
    ("iql", "discrete", QUICK | {"expectile": 0.9, "beta": 10.0}, STITCHED),
    ("iql", "discrete", QUICK | {"expectile": 0.5, "beta": 10.0}, REPEATED),
    ("xql", "continuous", QUICK | {"gumbel_beta": 0.1, "gumbel_clip": 12.0, "beta": 10.0}, STITCHED),  # 1 is ten times 0.1
    ("xql", "continuous", QUICK | {"gumbel_beta": 10.0, "beta": 10.0}, REPEATED),  # so soft a maximum is nearly the mean
    ("xql", "discrete", QUICK | {"gumbel_beta": 0.1, "gumbel_clip": 12.0, "beta": 10.0}, STITCHED),
    ("xql", "discrete", QUICK | {"gumbel_beta": 10.0, "beta": 10.0}, REPEATED),
    ("sac_n", "continuous", QUICK | {"members": 10}, STITCHED),
    ("edac", "continuous", QUICK | {"members": 5}, STITCHED),
    ("bcq", "continuous", QUICK | SUPPORT, STITCHED),
    ("bcq", "discrete", QUICK, STITCHED),
    ("bear", "continuous", QUICK | SUPPORT | {"actor_learning_rate": 1e-3, "warm_start": 600}, STITCHED),
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
