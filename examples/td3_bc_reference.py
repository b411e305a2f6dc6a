"""TD3+BC on stored Pendulum-v1 data in one file: the same algorithm as `rl_training.TD3BC`, written out in plain PyTorch.

    python examples/td3_bc_reference.py --total-timesteps 10000

Fujimoto & Gu 2021, "A Minimalist Approach to Offline Reinforcement Learning" (arXiv:2106.06860): TD3 (Fujimoto et al. 2018,
arXiv:1802.09477) whose actor is also pulled towards the actions in the data, on standardized observations. The data is recorded
here, by a swing-up controller that acts at random part of the time; `--total-timesteps` counts updates, for learning itself
takes no step in the environment. Actions are in [-1, 1]; the environment's are twice as large.
"""

from __future__ import annotations

import argparse
import copy

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F


def network(inputs: int, outputs: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
    )


class TD3BC:
    """Actor, twin critics, a lagged copy of each, and their update."""

    def __init__(
        self,
        obs: np.ndarray,
        action_size: int,
        hidden: int = 256,
        learning_rate: float = 1e-3,
        gamma: float = 0.99,
        tau: float = 0.005,
        alpha: float = 2.5,
    ) -> None:
        """`obs` (M, size) are the observations of the data: their statistics are part of the method."""
        self.mean = torch.as_tensor(obs.mean(0, dtype=np.float64).astype(np.float32))
        self.deviation = torch.as_tensor((obs.std(0, dtype=np.float64) + 1e-3).astype(np.float32))
        self.actor = network(obs.shape[1], action_size, hidden).append(nn.Tanh())
        self.critics = nn.ModuleList(network(obs.shape[1] + action_size, 1, hidden) for _ in range(2))
        self.target_actor, self.target_critics = copy.deepcopy(self.actor), copy.deepcopy(self.critics)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), learning_rate)
        self.critic_optimizer = torch.optim.Adam(self.critics.parameters(), learning_rate)
        self.gamma, self.tau, self.alpha = gamma, tau, alpha
        self.updates = 0

    def standardize(self, obs: Tensor) -> Tensor:
        return (obs - self.mean) / self.deviation

    @staticmethod
    def values(critics: nn.ModuleList, obs: Tensor, action: Tensor) -> list[Tensor]:
        return [critic(torch.cat([obs, action], -1)).squeeze(-1) for critic in critics]

    def critic_loss(self, obs: Tensor, next_obs: Tensor, batch: dict[str, Tensor]) -> Tensor:
        with torch.no_grad():
            # Noise on the target action: similar actions should have similar values.
            next_action = self.target_actor(next_obs)
            noise = (0.2 * torch.randn_like(next_action)).clamp(-0.5, 0.5)
            next_action = (next_action + noise).clamp(-1, 1)
            next_q = torch.min(*self.values(self.target_critics, next_obs, next_action))
            target = batch["reward"] + self.gamma * (1 - batch["terminated"].float()) * next_q
        return sum(F.mse_loss(q, target) for q in self.values(self.critics, obs, batch["action"]))

    def actor_loss(self, obs: Tensor, data_action: Tensor) -> Tensor:
        """Raise the first critic's value, divided by its own size so that one alpha fits all rewards; stay near the data."""
        action = self.actor(obs)
        q = self.values(self.critics, obs, action)[0]
        scale = self.alpha / q.abs().mean().detach()
        return -scale * q.mean() + F.mse_loss(action, data_action)

    def update(self, batch: dict[str, Tensor]) -> None:
        """One step of the critics; every second time one of the actor, after which all targets follow."""
        obs, next_obs = self.standardize(batch["obs"]), self.standardize(batch["next_obs"])
        self._step(self.critic_optimizer, self.critic_loss(obs, next_obs, batch))
        self.updates += 1
        if self.updates % 2 == 0:
            self._step(self.actor_optimizer, self.actor_loss(obs, batch["action"]))
            self._follow(self.target_critics, self.critics)
            self._follow(self.target_actor, self.actor)

    @staticmethod
    def _step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
        optimizer.zero_grad()  # also clears what another loss left in these parameters
        loss.backward()
        optimizer.step()

    @torch.no_grad()
    def _follow(self, target: nn.Module, source: nn.Module) -> None:
        for slow, fast in zip(target.parameters(), source.parameters()):
            slow += self.tau * (fast - slow)

    @torch.no_grad()
    def act(self, obs: np.ndarray) -> np.ndarray:
        return self.actor(self.standardize(torch.as_tensor(obs))).numpy()


def controller(obs: np.ndarray) -> float:
    """Swings the pendulum up by its energy and balances it there; in [-1, 1]."""
    cosine, sine, velocity = obs
    if cosine > 0.9:
        return float(np.clip(-5.0 * sine - velocity, -1, 1))
    energy = velocity**2 / 2 + 15.0 * (cosine - 1.0)  # zero when it stands upright
    return float(np.clip(-velocity * energy, -1, 1))


def record(steps: int, seed: int) -> tuple[dict[str, np.ndarray], float]:
    """Transitions of mixed quality (each episode has its own share of random actions) and the mean return of their episodes."""
    env, rng = gym.make("Pendulum-v1"), np.random.default_rng(seed)
    rows: dict[str, list[object]] = {"obs": [], "action": [], "reward": [], "terminated": [], "next_obs": []}
    obs, _ = env.reset(seed=seed)
    random_share, episodes = rng.random(), 1
    for _ in range(steps):
        choice = rng.uniform(-1, 1) if rng.random() < random_share else controller(obs)
        action = np.array([choice], np.float32)
        next_obs, reward, terminated, truncated, _ = env.step(2.0 * action)
        row = {"obs": obs, "action": action, "reward": np.float32(reward), "terminated": terminated, "next_obs": next_obs}
        for key, value in row.items():
            rows[key].append(value)
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()
            random_share, episodes = rng.random(), episodes + 1
    data = {key: np.array(column) for key, column in rows.items()}
    return data, float(data["reward"].sum()) * 200 / steps


def evaluate(agent: TD3BC, episodes: int, seed: int) -> float:
    """Mean return of the actor."""
    env = gym.make("Pendulum-v1")
    total = 0.0
    for episode in range(episodes):
        obs, _ = env.reset(seed=seed + episode)
        done = False
        while not done:
            obs, reward, terminated, truncated, _ = env.step(2.0 * agent.act(obs))
            total += float(reward)
            done = terminated or truncated
    return total / episodes


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description="TD3+BC on stored Pendulum-v1 data")
    parser.add_argument("--total-timesteps", type=int, default=10_000, help="updates")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dataset-steps", type=int, default=20_000, help="transitions to record")
    parser.add_argument("--batch-size", type=int, default=256)
    options = parser.parse_args(arguments)

    torch.set_num_threads(1)  # networks this small are slower on more
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    data, quality = record(options.dataset_steps, options.seed)
    print(f"{len(data['reward']):,} transitions, mean return {quality:.1f}")
    agent = TD3BC(data["obs"], action_size=1)
    for update in range(1, options.total_timesteps + 1):
        index = rng.integers(len(data["reward"]), size=options.batch_size)
        agent.update({key: torch.as_tensor(column[index]) for key, column in data.items()})
        if update % 2_000 == 0:
            print(f"{update:>8,} updates   return {evaluate(agent, episodes=5, seed=options.seed + 1_000):7.1f}")
    score = evaluate(agent, episodes=10, seed=options.seed + 1_000)
    print(f"evaluation after {options.total_timesteps:,} updates: {score:.1f}")
    return score


if __name__ == "__main__":
    main()
