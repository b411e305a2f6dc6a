"""SAC on Pendulum-v1 in one file: the same algorithm as `rl_training.SAC`, written out in plain PyTorch.

    python examples/sac_pendulum_reference.py --total-timesteps 10000

Haarnoja et al. 2018, "Soft Actor-Critic Algorithms and Applications" (arXiv:1812.05905): twin critics with a soft target, a
tanh-Gaussian actor trained through its own samples, and a temperature that holds the policy to a target entropy. An update does
critics, actor, temperature, and then moves the target critics. Actions are in [-1, 1]; the environment's are twice as large.
"""

from __future__ import annotations

import argparse
import copy
import math

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Normal
from torch.nn import functional as F


def network(inputs: int, outputs: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
    )


class SAC:
    """Actor, twin critics, temperature and their update."""

    def __init__(
        self,
        obs_size: int,
        action_size: int,
        hidden: int = 256,
        learning_rate: float = 1e-3,
        gamma: float = 0.99,
        tau: float = 0.005,
    ) -> None:
        self.actor = network(obs_size, 2 * action_size, hidden)  # mean and log standard deviation
        self.critics = nn.ModuleList(network(obs_size + action_size, 1, hidden) for _ in range(2))
        self.target_critics = copy.deepcopy(self.critics)
        self.log_alpha = torch.zeros((), requires_grad=True)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), learning_rate)
        self.critic_optimizer = torch.optim.Adam(self.critics.parameters(), learning_rate)
        self.alpha_optimizer = torch.optim.Adam([self.log_alpha], learning_rate)
        self.gamma, self.tau, self.target_entropy = gamma, tau, -float(action_size)

    def sample(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Actions tanh(u), u ~ N(mean, std), and their log-densities."""
        mean, log_std = self.actor(obs).chunk(2, -1)
        std = log_std.clamp(-20, 2).exp()
        u = mean + std * torch.randn_like(mean)
        # log(1 - tanh(u)^2), in a form that does not round to log(0) for large u.
        slope = 2 * (math.log(2) - u - F.softplus(-2 * u))
        return u.tanh(), (Normal(mean, std).log_prob(u) - slope).sum(-1)

    @staticmethod
    def values(critics: nn.ModuleList, obs: Tensor, action: Tensor) -> list[Tensor]:
        return [critic(torch.cat([obs, action], -1)).squeeze(-1) for critic in critics]

    def update(self, batch: dict[str, Tensor]) -> None:
        """One gradient step for everything. `terminated` is true only where the task ended, not where time ran out."""
        alpha = self.log_alpha.exp().detach()

        with torch.no_grad():
            next_action, next_log_prob = self.sample(batch["next_obs"])
            next_q = torch.min(*self.values(self.target_critics, batch["next_obs"], next_action))
            going_on = 1 - batch["terminated"].float()
            target = batch["reward"] + self.gamma * going_on * (next_q - alpha * next_log_prob)
        critic_loss = sum(F.mse_loss(q, target) for q in self.values(self.critics, batch["obs"], batch["action"]))
        self._step(self.critic_optimizer, critic_loss)

        action, log_prob = self.sample(batch["obs"])
        q = torch.min(*self.values(self.critics, batch["obs"], action))
        self._step(self.actor_optimizer, (alpha * log_prob - q).mean())

        entropy = -log_prob.mean().detach()
        self._step(self.alpha_optimizer, self.log_alpha * (entropy - self.target_entropy))

        with torch.no_grad():
            for slow, fast in zip(self.target_critics.parameters(), self.critics.parameters()):
                slow += self.tau * (fast - slow)

    @staticmethod
    def _step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
        optimizer.zero_grad()  # also clears what another loss left in these parameters
        loss.backward()
        optimizer.step()

    @torch.no_grad()
    def act(self, obs: np.ndarray, explore: bool) -> np.ndarray:
        obs = torch.as_tensor(obs).unsqueeze(0)
        action = self.sample(obs)[0] if explore else self.actor(obs).chunk(2, -1)[0].tanh()
        return action[0].numpy()


class Replay:
    """A ring of transitions, sampled uniformly."""

    def __init__(self, capacity: int, obs_size: int, action_size: int) -> None:
        self.capacity, self.added = capacity, 0
        self.columns = {
            "obs": np.zeros((capacity, obs_size), np.float32),
            "action": np.zeros((capacity, action_size), np.float32),
            "reward": np.zeros(capacity, np.float32),
            "terminated": np.zeros(capacity, np.bool_),
            "next_obs": np.zeros((capacity, obs_size), np.float32),
        }

    def add(self, **row: object) -> None:
        for key, value in row.items():
            self.columns[key][self.added % self.capacity] = value
        self.added += 1

    def sample(self, count: int, rng: np.random.Generator) -> dict[str, Tensor]:
        index = rng.integers(min(self.added, self.capacity), size=count)
        return {key: torch.as_tensor(column[index]) for key, column in self.columns.items()}


def evaluate(sac: SAC, episodes: int, seed: int) -> float:
    """Mean return of the mean action."""
    env = gym.make("Pendulum-v1")
    total = 0.0
    for episode in range(episodes):
        obs, _ = env.reset(seed=seed + episode)
        done = False
        while not done:
            obs, reward, terminated, truncated, _ = env.step(2.0 * sac.act(obs, explore=False))
            total += float(reward)
            done = terminated or truncated
    return total / episodes


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description="SAC on Pendulum-v1")
    parser.add_argument("--total-timesteps", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=256)
    options = parser.parse_args(arguments)

    torch.set_num_threads(1)  # networks this small are slower on more
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    env = gym.make("Pendulum-v1")
    sac, replay = SAC(obs_size=3, action_size=1), Replay(options.total_timesteps, obs_size=3, action_size=1)
    random_steps = min(200, options.total_timesteps // 2)

    returns, running = [], 0.0
    obs, _ = env.reset(seed=options.seed)
    for step in range(options.total_timesteps):
        explore = step >= random_steps
        action = sac.act(obs, explore=True) if explore else rng.uniform(-1, 1, 1).astype(np.float32)
        next_obs, reward, terminated, truncated, _ = env.step(2.0 * action)
        replay.add(obs=obs, action=action, reward=reward, terminated=terminated, next_obs=next_obs)
        obs, running = next_obs, running + float(reward)
        if terminated or truncated:
            returns.append(running)
            obs, _ = env.reset()
            running = 0.0
        if explore:
            sac.update(replay.sample(options.batch_size, rng))
        if (step + 1) % 1_000 == 0:
            alpha = float(sac.log_alpha.detach().exp())
            print(f"{step + 1:>8,} steps   mean return of the last 5 episodes {np.mean(returns[-5:]):7.1f}   alpha {alpha:.3f}")
    score = evaluate(sac, episodes=5, seed=options.seed + 1_000)
    print(f"evaluation after {options.total_timesteps:,} steps: {score:.1f}")
    return score


if __name__ == "__main__":
    main()
