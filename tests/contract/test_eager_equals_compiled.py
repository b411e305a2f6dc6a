"""Compiling an update changes its speed and nothing else: 5 updates agree within rounding."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
import torch
from tiny import NAMES, Maker

from rl_training.algorithms import find
from rl_training.experiment import prepare
from rl_training.experiment.envs import training_envs
from rl_training.runtime.acting import Actor
from rl_training.runtime.collector import Collector
from rl_training.runtime.learner import Learner
from rl_training.runtime.plan import has_compiler

UPDATES = 5
# Compiling takes most of a minute for each algorithm, so only one is part of the ordinary run.
CHOSEN = [pytest.param(name, marks=[] if name == "dqn" else pytest.mark.slow) for name in NAMES]


def after_updates(make: Maker, name: str, mode: str) -> dict[str, torch.Tensor]:
    """The learner's tensors after 5 updates on random experience."""
    # With the target moved at every update there is one graph to compile instead of two, and the target is compared too.
    moves = {"target_update_interval": 1} if hasattr(find(name).config_class, "target_update_interval") else {}
    agent: Any = make.standard(name, steps=400, **moves)
    learner = Learner(agent.parts.algorithm, mode=mode)
    buffer, _ = prepare.buffer(agent)
    new = UPDATES
    if agent.config.total_steps:
        parts = agent.parts
        envs, actor = training_envs(agent.config, None), Actor(parts.algorithm.policy)
        collector = Collector(envs, actor, 0, parts.random_steps, parts.keep_outputs)
        while collector.steps < 100:
            buffer.add(collector.collect(parts.collect))
        new = collector.steps
    updates = 0
    # A rollout that makes fewer batches is learned from again.
    batches = (batch for _ in range(UPDATES) for batch in buffer.batches(new, learner.prepare))
    for batch in islice(batches, UPDATES):
        learner.update(batch)
        updates += 1
    assert updates == UPDATES, updates
    return agent.parts.algorithm.state_dict()


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest difference; equal infinities (a clip that is off) are 0 apart."""
    return float(torch.where(a == b, 0.0, (a.double() - b.double()).abs()).max())


@pytest.mark.skipif(not has_compiler(), reason="needs a C++ compiler")
@pytest.mark.parametrize("name", CHOSEN)
def test_compiled_updates_equal_eager_ones(name: str, make: Maker) -> None:
    eager, compiled = after_updates(make, name, "eager"), after_updates(make, name, "compile")
    start = dict(make.standard(name, steps=400).parts.algorithm.named_parameters())
    assert any(not torch.equal(start[key], eager[key]) for key in start), "nothing has moved"
    apart = {key: distance(eager[key], compiled[key]) for key in eager}
    allowed = {key: 1e-5 * max(1.0, float(torch.where(eager[key].isfinite(), eager[key], 0).abs().max())) for key in eager}
    assert all(gap <= allowed[key] for key, gap in apart.items()), {k: gap for k, gap in apart.items() if not gap <= allowed[k]}
