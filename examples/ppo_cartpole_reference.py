"""PPO on CartPole-v1 in one file: the same algorithm as `rl_training.PPO`, written out in plain PyTorch.

    python examples/ppo_cartpole_reference.py --total-timesteps 50000

Schulman et al. 2017, "Proximal Policy Optimization Algorithms" (arXiv:1707.06347), with the details that matter in practice:
orthogonal initialization, advantages standardized in every minibatch, one gradient clip over actor and critic together, Adam with
eps 1e-5, and truncated episodes that bootstrap from the value of their true last observation.
"""

from __future__ import annotations

import argparse
import math

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import Tensor, nn
from torch.distributions import Categorical


def network(inputs: int, outputs: int, output_gain: float) -> nn.Sequential:
    """Two tanh layers of 64 units and a linear output, orthogonally initialized."""
    layers = [nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)]
    for layer, gain in zip(layers[::2], (math.sqrt(2), math.sqrt(2), output_gain)):
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


class PPO:
    """Actor, critic and their update. A rollout is a dict of (T, N, ...) tensors."""

    def __init__(
        self,
        obs_size: int,
        actions: int,
        learning_rate: float = 1e-3,
        gamma: float = 0.98,
        gae_lambda: float = 0.8,
        clip: float = 0.2,
        value_coef: float = 0.5,
        entropy_coef: float = 0.0,
        max_grad_norm: float = 0.5,
        epochs: int = 20,
        minibatches: int = 1,
    ) -> None:
        self.actor = network(obs_size, actions, output_gain=0.01)  # a nearly uniform policy to begin with
        self.critic = network(obs_size, 1, output_gain=1.0)
        self.parameters = [*self.actor.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, learning_rate, eps=1e-5)
        self.learning_rate, self.initial_clip, self.clip = learning_rate, clip, clip
        self.gamma, self.gae_lambda = gamma, gae_lambda
        self.value_coef, self.entropy_coef, self.max_grad_norm = value_coef, entropy_coef, max_grad_norm
        self.epochs, self.minibatches = epochs, minibatches

    def anneal(self, progress: float) -> None:
        """Let step size and clip range fall linearly to zero over training."""
        self.optimizer.param_groups[0]["lr"] = self.learning_rate * (1 - progress)
        self.clip = self.initial_clip * (1 - progress)

    def policy(self, obs: Tensor) -> Categorical:
        return Categorical(logits=self.actor(obs))

    def value(self, obs: Tensor) -> Tensor:
        return self.critic(obs).squeeze(-1)

    @torch.no_grad()
    def prepare(self, rollout: dict[str, Tensor]) -> dict[str, Tensor]:
        """Add what the loss needs: log-probabilities, values, advantages and returns, all under the current parameters."""
        value, next_value = self.value(rollout["obs"]), self.value(rollout["next_obs"])
        log_prob = self.policy(rollout["obs"]).log_prob(rollout["action"])
        # Termination removes the value of what follows; either kind of end stops the sum over later errors.
        terminated = rollout["terminated"].float()
        ended = (rollout["terminated"] | rollout["truncated"]).float()
        error = rollout["reward"] + self.gamma * (1 - terminated) * next_value - value
        advantage = torch.zeros_like(error)
        following = torch.zeros_like(error[0])
        for t in reversed(range(len(error))):
            following = error[t] + self.gamma * self.gae_lambda * (1 - ended[t]) * following
            advantage[t] = following
        return {
            "obs": rollout["obs"],
            "action": rollout["action"],
            "log_prob": log_prob,
            "value": value,
            "advantage": advantage,
            "return": advantage + value,
        }

    def loss(self, batch: dict[str, Tensor]) -> Tensor:
        """Clipped policy loss, squared value error (without the factor 1/2 of the paper), entropy bonus."""
        advantage = batch["advantage"]
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        policy = self.policy(batch["obs"])
        ratio = (policy.log_prob(batch["action"]) - batch["log_prob"]).exp()
        clipped_ratio = ratio.clamp(1 - self.clip, 1 + self.clip)
        policy_loss = -torch.min(ratio * advantage, clipped_ratio * advantage).mean()
        value_loss = (self.value(batch["obs"]) - batch["return"]).square().mean()
        return policy_loss + self.value_coef * value_loss - self.entropy_coef * policy.entropy().mean()

    def update(self, batch: dict[str, Tensor]) -> None:
        """One gradient step on a minibatch of rows."""
        self.optimizer.zero_grad()
        self.loss(batch).backward()
        nn.utils.clip_grad_norm_(self.parameters, self.max_grad_norm)
        self.optimizer.step()

    def learn(self, rollout: dict[str, Tensor], rng: np.random.Generator) -> None:
        """Some epochs over the shuffled rows of a rollout."""
        rows = {key: part.flatten(0, 1) for key, part in self.prepare(rollout).items()}
        count = len(rows["action"])
        for _ in range(self.epochs):
            for index in np.array_split(rng.permutation(count), self.minibatches):
                self.update({key: part[index] for key, part in rows.items()})


class Collector:
    """Steps N environments; remembers where they are between rollouts."""

    def __init__(self, num_envs: int, seed: int) -> None:
        self.envs = gym.make_vec(
            "CartPole-v1", num_envs, vectorization_mode="sync", vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP}
        )
        self.obs, _ = self.envs.reset(seed=seed)
        self.running = np.zeros(num_envs)
        self.returns: list[float] = []

    def collect(self, ppo: PPO, steps: int) -> dict[str, Tensor]:
        """A rollout of T steps; `next_obs` is the true successor, also where the environment has already been reset."""
        columns: dict[str, list[np.ndarray]] = {}
        for _ in range(steps):
            with torch.no_grad():
                action = ppo.policy(torch.as_tensor(self.obs)).sample().numpy()
            obs, reward, terminated, truncated, info = self.envs.step(action)
            next_obs = obs.copy()
            self.running += reward
            for env in np.flatnonzero(terminated | truncated):
                next_obs[env] = info["final_obs"][env]
                self.returns.append(float(self.running[env]))
                self.running[env] = 0.0
            row = {
                "obs": self.obs,
                "action": action,
                "reward": reward.astype(np.float32),
                "terminated": terminated,
                "truncated": truncated,
                "next_obs": next_obs,
            }
            for key, part in row.items():
                columns.setdefault(key, []).append(part)
            self.obs = obs
        return {key: torch.as_tensor(np.stack(parts)) for key, parts in columns.items()}


def evaluate(ppo: PPO, episodes: int, seed: int) -> float:
    """Mean return of the most probable action."""
    env = gym.make("CartPole-v1")
    total = 0.0
    for episode in range(episodes):
        obs, _ = env.reset(seed=seed + episode)
        done = False
        while not done:
            with torch.no_grad():
                action = int(ppo.actor(torch.as_tensor(obs)).argmax())
            obs, reward, terminated, truncated, _ = env.step(action)
            total += float(reward)
            done = terminated or truncated
    return total / episodes


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description="PPO on CartPole-v1")
    parser.add_argument("--total-timesteps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--num-steps", type=int, default=32, help="steps per environment and rollout")
    options = parser.parse_args(arguments)

    torch.set_num_threads(1)  # networks this small are slower on more
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    collector = Collector(options.num_envs, options.seed)
    ppo = PPO(obs_size=4, actions=2)

    per_rollout = options.num_envs * options.num_steps
    for rollout in range(max(1, options.total_timesteps // per_rollout)):
        ppo.anneal(rollout * per_rollout / max(options.total_timesteps, per_rollout))
        ppo.learn(collector.collect(ppo, options.num_steps), rng)
        steps = (rollout + 1) * per_rollout
        if steps % (20 * per_rollout) == 0:
            print(f"{steps:>8,} steps   mean return of the last 20 episodes {np.mean(collector.returns[-20:]):6.1f}")
    score = evaluate(ppo, episodes=10, seed=options.seed + 1_000)
    print(f"evaluation after {steps:,} steps: {score:.1f}")
    return score


if __name__ == "__main__":
    main()
