"""One timed rl_training run: python run_ours.py TASK VARIANT STEPS. VARIANT: native|gym + eager|compile. Prints one JSON line."""

import json
import sys
import tempfile
import time
from typing import Any

import torch

import rl_training
from rl_training import DQN, PPO, SAC, TD3
from rl_training.runtime.trainer import Trainer

task, variant, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
backend, mode = variant.replace("gym", "sync").split("+")
WARM = {"ppo-cartpole": 1024 * 2, "dqn-cartpole": 1500, "sac-halfcheetah": 600, "td3-halfcheetah": 600}[task]
common: dict[str, Any] = {
    "total_steps": steps, "env_backend": backend, "accelerate": mode, "eval_every": 0, "checkpoint_every": 0,
    "logging_every": 1000, "tensorboard": False, "progress": "quiet", "output_dir": tempfile.mkdtemp(), "num_episodes": 10,
}  # fmt: skip
agent: Any
if task == "ppo-cartpole":
    agent = PPO("CartPole-v1", num_envs=8, num_steps=128, minibatches=4, epochs=4, learning_rate=1e-3, **common)
elif task == "dqn-cartpole":
    agent = DQN(
        "CartPole-v1", learning_rate=5e-4, buffer_size=50_000, learning_starts=1000, batch_size=64, train_freq=1,
        gradient_steps=1, target_update_interval=500, exploration_fraction=0.2, hidden=(64, 64), double=False, **common,
    )  # fmt: skip
elif task == "sac-halfcheetah":
    agent = SAC("HalfCheetah-v5", learning_starts=500, **common)
else:
    agent = TD3("HalfCheetah-v5", learning_starts=500, **common)


class Clock:
    """Starts the clock after the warm-up, so that start-up, compiling and random steps are left out.

    It looks at the trainer itself: a callback's step hook guards the generators, which costs 0.1 ms each time.
    """

    start: tuple[float, float, int] | None = None
    stop: tuple[float, float, int]

    def tick(self, trainer: Trainer) -> None:
        plain_tick(trainer)
        if self.start is None and trainer.env_steps >= WARM:
            self.start = (time.process_time(), time.perf_counter(), trainer.env_steps)
        if trainer.done:
            self.stop = (time.process_time(), time.perf_counter(), trainer.env_steps)


clock, plain_tick = Clock(), Trainer.tick
Trainer.tick = lambda trainer: clock.tick(trainer)  # type: ignore[method-assign]
agent.learn()
assert clock.start is not None
done = clock.stop[2] - clock.start[2]
cpu, wall = clock.stop[0] - clock.start[0], clock.stop[1] - clock.start[1]
print(json.dumps({"steps_per_cpu_s": done / cpu, "steps_per_wall_s": done / wall, "startup_cpu_s": clock.start[0],
                  "return": agent.result.metrics["eval/mean"], "steps": done, "rl_training": rl_training.__version__,
                  "torch": torch.__version__}))  # fmt: skip
