"""The memory of acting gives what a stored slice of the same steps would."""

from __future__ import annotations

import numpy as np
import torch
from test_sequences import dataset

from rl_training.data.history import History
from rl_training.data.sequences import SequenceBuffer
from rl_training.specs import ActionSpec, Leaf, ObsSpec

OBS, BOX = ObsSpec((Leaf("", (1,), "float32"),)), ActionSpec("continuous", dim=1)


def test_it_is_the_slice_that_ends_with_the_present_step() -> None:
    data = dataset([5])
    stored = SequenceBuffer(data, batch_size=1, context=3, scale=2.0)
    history = History(OBS, BOX, 2, 3, to_go=15.0 / 2)
    for step in range(5):
        seen = history.see(np.repeat(data.obs[step : step + 1], 2, 0))
        known = min(step + 1, 3)
        wanted = {k: v[:, :known] for k, v in stored.gather(np.array([step - known + 1])).items()}
        for key in ("obs", "to_go", "timestep", "mask"):
            torch.testing.assert_close(seen[key][:1, 3 - known :], wanted[key], msg=f"{key} at step {step}")
        assert not seen["mask"][:, : 3 - known].any()
        assert torch.equal(seen["action"][0, 3 - known : -1], wanted["action"][0, :-1]), "those that are done"
        assert not seen["action"][0, -1].any(), "and none yet"
        history.did(np.repeat(data.action[step : step + 1], 2, 0), data.reward[[step, step]] / 2, np.array([False, False]))


def test_an_episode_that_is_over_leaves_nothing_to_the_next() -> None:
    history = History(OBS, BOX, 2, 3, to_go=4.0)
    history.see(np.ones((2, 1), np.float32))
    history.did(np.ones((2, 1), np.float32), np.array([1.0, 1.0], np.float32), np.array([True, False]))
    seen = history.see(np.full((2, 1), 2.0, np.float32))
    assert seen["mask"].tolist() == [[False, False, True], [False, True, True]]
    assert seen["to_go"][:, -1].tolist() == [4.0, 3.0] and seen["timestep"][:, -1].tolist() == [0, 1]


def test_parts_of_observations_and_discrete_actions() -> None:
    spec = ObsSpec((Leaf("a", (2,), "float32"), Leaf("b", (), "float32")))
    history = History(spec, ActionSpec("discrete", (3,)), 1, 2, to_go=0.0)
    history.see({"a": np.ones((1, 2), np.float32), "b": np.ones(1, np.float32)})
    history.did(np.array([2]), np.zeros(1, np.float32), np.array([False]))
    seen = history.see({"a": np.zeros((1, 2), np.float32), "b": np.full(1, 5.0, np.float32)})
    assert seen["obs"]["b"].tolist() == [[1.0, 5.0]] and seen["action"].tolist() == [[2, 0]]
    kept = seen["obs"]["a"].clone()
    history.see({"a": np.full((1, 2), 7.0, np.float32), "b": np.ones(1, np.float32)})
    assert torch.equal(seen["obs"]["a"], kept), "what was given stays as it was"
