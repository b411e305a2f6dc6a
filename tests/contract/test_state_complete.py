"""No state outside `state_dict()`: a trained run and its reloaded copy are walked attribute by attribute, closures included.

A new field that is not saved makes this fail. What may differ is listed with the reason why it does not matter.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from graph import walk
from outcome import same
from tiny import NAMES, Maker

from rl_training.algorithms import find
from rl_training.experiment.callbacks import Callback
from rl_training.experiment.manager import Run

VECTOR = r"collector\.envs\.envs\."
ALLOWED = {
    r"trainer\.timing\..*": "seconds that were spent; never read by training",
    r"collector\._chunk.*": "scratch: the next collect overwrites every element before it is read",
    r"buffer\.data.*": "the last rollout: consumed before a checkpoint, replaced by the next one",
    r"records\.logger\.(run_dir|_files.*)": "the copy has a folder of its own",
    r"records\.logger\.(_purge|_board.*)": "where TensorBoard events begin in this process",
    VECTOR + r"(_?rewards?|_?observations|_env_obs|_actions|_arguments\[[03]\])(<type>|\[.*)?": "the last step: the next one "
    "writes it anew, and acting reads collector.obs",
    VECTOR + r"(_terminated|_truncated|_arguments\[[45]\])": "how the last step ended, in native envs: the next one writes it "
    "before anything reads it",
    VECTOR + r"(single_)?(action|observation)_space\b.*": "nobody draws from the vector's spaces; the envs' own are saved",
    VECTOR + r"_clock\b.*": "tells in an error message where the episode was; nothing else reads it",
    VECTOR + r"envs\[\d+\]\._last_obs(\[.*)?": "read by the replay capture only, which replays it",
    VECTOR + r"(processes|parent_pipes|error_queue|_logs)\b.*": "handles of workers, whose environments are in saved_envs",
}


class CompareWithCopy(Callback):
    """At a checkpoint in the middle, opens a copy of the run and compares what is in memory."""

    def __init__(self, at: int) -> None:
        self.left, self.found, self.leaves = at, ["no checkpoint was made"], 0

    def on_checkpoint(self, run: Any, path: Path) -> None:
        self.left -= 1
        if self.left:
            return
        copy = run.dir.with_name(f"copy-of-{run.dir.name}")
        shutil.copytree(run.dir, copy)
        reloaded = Run.resume(copy, find(run.config.algo), None, {})
        reloaded._open()  # as train() does before the first tick
        try:
            self.found = self._differences(state_graph(run), state_graph(reloaded))
        finally:
            reloaded._leave("interrupted", 130)
            reloaded.lock.release()

    def _differences(self, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
        self.leaves = len(old)
        changed = [path for path in old | new if not same(old.get(path, "absent"), new.get(path, "absent"))]
        return [f"{path}: {old.get(path, 'absent')!r} became {new.get(path, 'absent')!r}" for path in changed
                if not any(re.fullmatch(pattern, path) for pattern in ALLOWED)]  # fmt: skip


def state_graph(run: Any) -> dict[str, Any]:
    """Everything that decides how the run goes on. One walk, so that sharing between the parts is compared too."""
    parts = {
        "learner": run.learner, "collector": run.trainer.collector, "buffer": run.trainer.buffer, "trainer": run.trainer,
        "saved_envs": None if run.trainer.collector is None else run.trainer.collector.envs.state_dict(),
        "records": run.records, "actor": run.agent.actor, "clock": run._clock,
    }  # fmt: skip
    return {re.sub(r"^\['(\w+)'\]", r"\1", path): leaf for path, leaf in walk(parts).items()}


# Every optional part that has state; each algorithm takes those settings that it has.
EXTRAS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in NAMES),
    ("ppo", {"normalize_obs": True, "normalize_reward": True, "anneal_lr": True, "anneal_clip": True, "target_kl": 0.02}),
    ("dqn", {"priority": 0.6, "n_step": 3, "dueling": True, "buffer_size": 100, "num_envs": 2, "normalize_obs": True}),
    ("dqn", {"env_backend": "sync", "num_envs": 2}),
    ("sac", {"env_backend": "sync", "normalize_obs": True, "buffer_size": 100}),
    ("td3", {"env_backend": "async", "num_envs": 2}),
    ("sac", {"noise_correlation": 0.9, "num_envs": 2}),
]


@pytest.mark.parametrize(("name", "settings"), EXTRAS, ids=lambda value: "-".join(value) if isinstance(value, dict) else value)
def test_a_reloaded_run_equals_the_run_it_was_saved_from(name: str, settings: dict[str, Any], make: Maker) -> None:
    compare = CompareWithCopy(at=3)
    # 90 and 40 leave sums, credit and running episodes half-way at the checkpoint.
    make.standard(name, steps=400, checkpoint_every=90, eval_every=40, logging_every=70, **settings).learn(callbacks=[compare])
    assert compare.found == [], f"{len(compare.found)} of {compare.leaves} differ:\n" + "\n".join(compare.found[:20])
    assert compare.leaves > 200, compare.leaves
