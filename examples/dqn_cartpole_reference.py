"""DQN on CartPole-v1 in one file: the same algorithm as `rl_training.DQN`, written out in plain PyTorch.

    python examples/dqn_cartpole_reference.py --total-timesteps 40000

Mnih et al. 2015, "Human-level control through deep reinforcement learning", with Double targets (van Hasselt et al. 2016,
arXiv:1509.06461), n-step returns and the Huber loss. Truncated episodes bootstrap; terminated ones do not.
"""

from __future__ import annotations

import argparse
import copy

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Replay:
    """A ring of transitions in the order they happened; n-step returns are made while sampling."""

    def __init__(self, capacity: int, obs_size: int) -> None:
        self.capacity, self.added = capacity, 0
        self.obs = np.zeros((capacity, obs_size), np.float32)
        self.next_obs = np.zeros((capacity, obs_size), np.float32)
        self.action = np.zeros(capacity, np.int64)
        self.reward = np.zeros(capacity)
        self.terminated = np.zeros(capacity, np.bool_)
        self.truncated = np.zeros(capacity, np.bool_)

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    def add(
        self, obs: np.ndarray, action: int, reward: float, terminated: bool, truncated: bool, next_obs: np.ndarray
    ) -> None:
        row = self.added % self.capacity
        self.obs[row], self.action[row], self.reward[row], self.next_obs[row] = obs, action, reward, next_obs
        self.terminated[row], self.truncated[row] = terminated, truncated
        self.added += 1

    def sample(self, count: int, n_step: int, gamma: float, rng: np.random.Generator) -> dict[str, Tensor]:
        return self.gather(rng.integers(len(self), size=count), n_step, gamma)

    def gather(self, index: np.ndarray, n_step: int, gamma: float) -> dict[str, Tensor]:
        """Transitions that start in these rows and end up to n steps later.

        A window stops where its episode does or at the newest row. `discount` is what the value of `next_obs` counts: gamma to
        the length of the window, and nothing after a termination.
        """
        newest = (self.added - 1) % self.capacity
        reward, discount = np.zeros(len(index)), np.ones(len(index))
        last = index.copy()
        running = np.ones(len(index), np.bool_)
        for k in range(n_step):
            row = (index + k) % self.capacity
            reward += running * discount * self.reward[row]
            discount[running] *= gamma
            last[running] = row[running]
            running &= ~(self.terminated[row] | self.truncated[row] | (row == newest))
        discount[self.terminated[last]] = 0.0
        batch = {
            "obs": self.obs[index],
            "action": self.action[index],
            "reward": reward.astype(np.float32),
            "discount": discount.astype(np.float32),
            "next_obs": self.next_obs[last],
        }
        return {key: torch.as_tensor(part) for key, part in batch.items()}


class DQN:
    """A Q-network, the older copy that its targets come from, and their update."""

    def __init__(
        self,
        obs_size: int,
        actions: int,
        hidden: int = 128,
        learning_rate: float = 5e-4,
        max_grad_norm: float = 10.0,
        sync_every: int = 125,
    ) -> None:
        self.q = nn.Sequential(
            nn.Linear(obs_size, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, actions)
        )
        self.target = copy.deepcopy(self.q)
        self.optimizer = torch.optim.Adam(self.q.parameters(), learning_rate)
        self.max_grad_norm, self.sync_every = max_grad_norm, sync_every
        self.updates = 0

    def loss(self, batch: dict[str, Tensor]) -> Tensor:
        with torch.no_grad():
            # Double: the network in training chooses the next action, the older copy says what it is worth.
            best = self.q(batch["next_obs"]).argmax(-1, keepdim=True)
            next_value = self.target(batch["next_obs"]).gather(-1, best).squeeze(-1)
            target = batch["reward"] + batch["discount"] * next_value
        q = self.q(batch["obs"]).gather(-1, batch["action"].unsqueeze(-1)).squeeze(-1)
        return F.smooth_l1_loss(q, target)  # with its beta of 1 this is the Huber loss

    def update(self, batch: dict[str, Tensor]) -> None:
        """One gradient step; every `sync_every` of them the target is made equal to the network."""
        self.optimizer.zero_grad()
        self.loss(batch).backward()
        nn.utils.clip_grad_norm_(self.q.parameters(), self.max_grad_norm)
        self.optimizer.step()
        self.updates += 1
        if self.updates % self.sync_every == 0:
            self.target.load_state_dict(self.q.state_dict())

    @torch.no_grad()
    def best_action(self, obs: np.ndarray) -> int:
        return int(self.q(torch.as_tensor(obs)).argmax())


def evaluate(dqn: DQN, episodes: int, seed: int) -> float:
    """Mean return of the greedy policy."""
    env = gym.make("CartPole-v1")
    total = 0.0
    for episode in range(episodes):
        obs, _ = env.reset(seed=seed + episode)
        done = False
        while not done:
            obs, reward, terminated, truncated, _ = env.step(dqn.best_action(obs))
            total += float(reward)
            done = terminated or truncated
    return total / episodes


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description="DQN on CartPole-v1")
    parser.add_argument("--total-timesteps", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--n-step", type=int, default=3)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--train-every", type=int, default=2, help="env steps per update")
    options = parser.parse_args(arguments)

    torch.set_num_threads(1)  # networks this small are slower on more
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    env = gym.make("CartPole-v1")
    dqn, replay = DQN(obs_size=4, actions=2), Replay(50_000, obs_size=4)
    learning_starts = min(1_000, options.total_timesteps // 4)
    exploration_steps = 0.16 * options.total_timesteps

    returns, running = [], 0.0
    obs, _ = env.reset(seed=options.seed)
    for step in range(options.total_timesteps):
        epsilon = 1.0 + (0.05 - 1.0) * min(1.0, step / exploration_steps)
        action = int(rng.integers(2)) if rng.random() < epsilon else dqn.best_action(obs)
        next_obs, reward, terminated, truncated, _ = env.step(action)
        replay.add(obs, action, float(reward), terminated, truncated, next_obs)
        obs, running = next_obs, running + float(reward)
        if terminated or truncated:
            returns.append(running)
            obs, _ = env.reset()
            running = 0.0
        if step >= learning_starts and step % options.train_every == 0:
            dqn.update(replay.sample(options.batch_size, options.n_step, options.gamma, rng))
        if (step + 1) % 5_000 == 0:
            print(f"{step + 1:>8,} steps   mean return of the last 20 episodes {np.mean(returns[-20:]):6.1f}")
    score = evaluate(dqn, episodes=10, seed=options.seed + 1_000)
    print(f"evaluation after {options.total_timesteps:,} steps: {score:.1f}")
    return score


if __name__ == "__main__":
    main()
