"""Memory: what a replay buffer takes, and whether anything grows while training.

    python benchmarks/memory.py

Prints the bytes of a 1M-transition HalfCheetah-v5 replay against its packed rows, and the resident memory of a 200,000-step DQN
run (buffer of 20,000, full from the start of the measurement) at every tenth of it.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from rl_training import DQN
from rl_training.data.storage import Storage
from rl_training.experiment.callbacks import Callback
from rl_training.specs import ActionSpec, Leaf, ObsSpec

STEPS = 200_000


def resident_kilobytes() -> int:
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0])


class Watch(Callback):
    """Notes the resident memory at every tenth of the run."""

    def __init__(self) -> None:
        self.samples: list[tuple[int, int]] = []

    def on_step(self, run: Any) -> None:
        step = run.trainer.env_steps
        if step % (STEPS // 10) == 0:
            self.samples.append((step, resident_kilobytes()))


def main() -> None:
    storage = Storage(ObsSpec((Leaf("", (17,), "float32"),)), ActionSpec("continuous", dim=6), 1_000_000, 1)
    packed = 4 * (17 + 6 + 17 + 1 + 1 + 1) * 1_000_000  # obs, action, next_obs, reward, terminated, truncated
    print(f"replay of 1M HalfCheetah-v5 transitions: {storage.bytes_when_full / 1e6:.0f} MB, "
          f"{storage.bytes_when_full / packed:.3f} of its packed rows ({packed / 1e6:.0f} MB)")  # fmt: skip
    watch = Watch()
    DQN(
        "CartPole-v1", total_steps=STEPS, buffer_size=20_000, learning_starts=1000, train_freq=16, hidden=(16, 16),
        eval_every=50_000, checkpoint_every=50_000, tensorboard=False, progress="quiet", output_dir=tempfile.mkdtemp(),
    ).learn(callbacks=[watch])  # fmt: skip
    steps, kilobytes = np.array(watch.samples[1:]).T
    slope = np.polyfit(steps / 100_000, kilobytes / 1000, 1)[0]
    resident = {int(step): round(k / 1000, 1) for step, k in watch.samples}
    print(json.dumps({"resident_MB": resident, "MB_per_100k_steps": round(slope, 3)}))


if __name__ == "__main__":
    main()
