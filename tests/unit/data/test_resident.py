"""Rows on the learner's device: they give the batches that the host gives, draw what is stored, and follow the ring."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rl_training.data.batch import BLOCK, Draws
from rl_training.data.replay_buffer import ReplayBuffer
from rl_training.data.resident import ResidentRows
from rl_training.data.storage import Storage
from rl_training.specs import ActionSpec, Leaf, ObsSpec

NESTED = ObsSpec((Leaf("a", (2, 2), "float32"), Leaf("b", (3,), "float32")))
PLAIN = ObsSpec((Leaf("", (3,), "float32"),))
ACTIONS = [ActionSpec("continuous", dim=2), ActionSpec("discrete", (5,)), ActionSpec("multidiscrete", (2, 3))]
CPU = torch.device("cpu")


def chunk(obs: ObsSpec, action: ActionSpec, steps: int, envs: int, rng: np.random.Generator) -> dict[str, Any]:
    def observation() -> Any:
        return obs.build([rng.standard_normal((steps, envs, *leaf.shape)).astype(np.float32) for leaf in obs.leaves])

    lead = (steps, envs, *action.shape)
    terminated = rng.random((steps, envs)) < 0.15
    return {
        "obs": observation(), "next_obs": observation(),
        "action": rng.uniform(-1, 1, lead).astype(np.float32) if action.kind == "continuous" else rng.integers(0, 2, lead),
        "reward": rng.standard_normal((steps, envs)).astype(np.float32), "terminated": terminated,
        "truncated": ~terminated & (rng.random((steps, envs)) < 0.15),
    }  # fmt: skip


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("action", ACTIONS, ids=lambda a: a.kind)
@pytest.mark.parametrize("obs", [PLAIN, NESTED], ids=["plain", "nested"])
def test_a_gathered_batch_is_the_one_the_host_gathers(obs: ObsSpec, action: ActionSpec, n_step: int) -> None:
    rng = np.random.default_rng(0)
    buffer = ReplayBuffer(obs, action, capacity=40, num_envs=2, batch_size=8, gamma=0.9, n_step=n_step)
    buffer.add(chunk(obs, action, 5, 2, rng))
    buffer.reside(CPU)
    assert buffer.resident is not None
    for steps in (1, 9, 7, 3, 6):  # past the end of the ring of 20 steps, in chunks that do and do not wrap
        buffer.add(chunk(obs, action, steps, 2, rng))
        index = np.arange(len(buffer.storage))
        host, here = buffer.storage.gather(index, n_step, 0.9), buffer.resident.gather(torch.from_numpy(index))
        assert here.keys() == host.keys()
        for key in host:
            pairs = host[key].items() if isinstance(host[key], dict) else [("", host[key])]
            for part, expected in pairs:
                found = here[key][part] if part else here[key]
                assert found.dtype == expected.dtype and found.shape == expected.shape, (key, part)
                torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def test_every_stored_row_is_drawn_and_no_other() -> None:
    storage, rng = Storage(PLAIN, ACTIONS[1], 64, 2), np.random.default_rng(0)
    storage.add(chunk(PLAIN, ACTIONS[1], 10, 2, rng))
    draw = ResidentRows(storage, CPU, 4_000, 1, 0.9)
    torch.manual_seed(0)
    stored = {float(r) for r in storage.rows[:20, -4]}
    drawn, counts = np.unique(draw()["reward"].numpy(), return_counts=True)
    assert {float(r) for r in drawn} == stored
    assert counts.min() > 140 and counts.max() < 260, counts  # 200 expected, deviation 14


def test_the_buffer_hands_out_the_resident_rows_until_there_are_gaps() -> None:
    rng = np.random.default_rng(0)
    buffer = ReplayBuffer(PLAIN, ACTIONS[0], capacity=64, batch_size=4)
    buffer.reside(CPU)
    buffer.add(chunk(PLAIN, ACTIONS[0], 4, 1, rng))
    assert buffer.resident is not None
    assert list(buffer.batches(2, lambda rollout: rollout)) == [Draws(buffer.resident, 2)]
    many = [batch.count for batch in buffer.batches(2 * BLOCK + 1, lambda rollout: rollout) if isinstance(batch, Draws)]
    assert many == [BLOCK, BLOCK, 1]
    made_up = chunk(PLAIN, ACTIONS[0], 2, 1, rng) | {"valid": np.array([[True], [False]])}
    buffer.add(made_up)
    (batch,) = buffer.batches(1, lambda rollout: rollout)
    assert isinstance(batch, dict), "a made-up row must not be learned from, so the host draws"


def test_prioritized_rows_stay_on_the_host() -> None:
    buffer = ReplayBuffer(PLAIN, ACTIONS[0], capacity=64, batch_size=4, priority=0.6)
    buffer.reside(CPU)
    assert buffer.resident is None
