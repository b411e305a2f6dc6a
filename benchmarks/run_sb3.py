"""One timed Stable-Baselines3 run: python run_sb3.py TASK STEPS. Prints one JSON line."""

import json
import sys
import time

import gymnasium as gym
import numpy as np
import stable_baselines3 as sb3
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

task, steps = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
WARM = {"ppo-cartpole": 1024 * 2, "dqn-cartpole": 1500, "sac-halfcheetah": 600, "td3-halfcheetah": 600}[task]
net = {"net_arch": [256, 256]}
relu64 = {"net_arch": [64, 64]}
if task == "ppo-cartpole":
    env = make_vec_env("CartPole-v1", 8, seed=0)
    model = sb3.PPO("MlpPolicy", env, n_steps=128, batch_size=256, n_epochs=4, learning_rate=1e-3, seed=0, device="cpu")
elif task == "dqn-cartpole":
    model = sb3.DQN(
        "MlpPolicy", gym.make("CartPole-v1"), learning_rate=5e-4, buffer_size=50_000, learning_starts=1000, batch_size=64,
        train_freq=1, gradient_steps=1, target_update_interval=500, exploration_fraction=0.2, policy_kwargs=relu64, seed=0,
        device="cpu",
    )  # fmt: skip
elif task == "sac-halfcheetah":
    model = sb3.SAC("MlpPolicy", gym.make("HalfCheetah-v5"), learning_starts=500, policy_kwargs=net, seed=0, device="cpu")
else:
    noise = sb3.common.noise.NormalActionNoise(np.zeros(6), 0.1 * np.ones(6))
    model = sb3.TD3(
        "MlpPolicy", gym.make("HalfCheetah-v5"), learning_rate=3e-4, learning_starts=500, policy_kwargs=net, action_noise=noise,
        seed=0, device="cpu",
    )  # fmt: skip


class Clock(BaseCallback):
    """Starts the clock after the warm-up, so that start-up and random steps are left out on both sides alike."""

    start = None

    def _on_step(self) -> bool:
        if self.start is None and self.num_timesteps >= WARM:
            self.start = (time.process_time(), time.perf_counter(), self.num_timesteps)
        return True


clock = Clock()
model.learn(steps, callback=clock)
cpu, wall = time.process_time() - clock.start[0], time.perf_counter() - clock.start[1]
done = model.num_timesteps - clock.start[2]
mean, _ = evaluate_policy(model, model.get_env(), n_eval_episodes=10)
print(json.dumps({"steps_per_cpu_s": done / cpu, "steps_per_wall_s": done / wall, "startup_cpu_s": clock.start[0],
                  "return": float(mean), "steps": done, "sb3": sb3.__version__, "torch": torch.__version__}))  # fmt: skip
