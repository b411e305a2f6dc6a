"""TD3+BC, IQL and CQL as single-file implementations write them: modules, torch.optim.Adam, and tensors drawn with randint.

    python offline_single_file.py ALGO DATA

For the comparison alone: ordinary eager PyTorch with the same networks, batches and hyperparameters.
"""

import copy
import math
import sys
from typing import Any

import torch
from pendulum import BATCH, GAMMA, HIDDEN, SHARED, TAU, columns, timed
from torch import Tensor, nn
from torch.nn import functional as F

torch.set_num_threads(1)
torch.manual_seed(0)
name = sys.argv[1]
s = SHARED[name]
data = {key: torch.from_numpy(column).float() for key, column in columns(sys.argv[2]).items()}
if name == "td3_bc":
    mean, std = data["obs"].mean(0), data["obs"].std(0) + 1e-3
else:
    mean, std = torch.zeros(3), torch.ones(3)
data |= {key: (data[key] - mean) / std for key in ("obs", "next_obs")}


def net(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, HIDDEN[0]), nn.ReLU(), nn.Linear(HIDDEN[0], HIDDEN[1]), nn.ReLU(), nn.Linear(HIDDEN[1], outputs)
    )


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = net(4, 1)

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        return self.net(torch.cat([obs, action], -1)).squeeze(-1)


def batch() -> tuple[Tensor, ...]:
    index = torch.randint(len(data["reward"]), (BATCH,))
    return tuple(data[key][index] for key in ("obs", "action", "reward", "next_obs", "terminated"))


def adam(*modules: nn.Module, lr: float) -> torch.optim.Optimizer:
    return torch.optim.Adam([p for module in modules for p in module.parameters()], lr=lr)


def step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def follow(target: nn.Module, source: nn.Module) -> None:
    for t, p in zip(target.parameters(), source.parameters()):
        t.data.copy_(TAU * p.data + (1 - TAU) * t.data)


q1, q2 = Critic(), Critic()
t1, t2 = copy.deepcopy(q1), copy.deepcopy(q2)
q_optim = adam(q1, q2, lr=s["learning_rate"])
count = 0


class TD3BC:
    def __init__(self) -> None:
        self.actor = nn.Sequential(net(3, 1), nn.Tanh())
        self.target = copy.deepcopy(self.actor)
        self.optim = adam(self.actor, lr=s["learning_rate"])

    def __call__(self) -> None:
        global count
        count += 1
        obs, action, reward, after, ended = batch()
        with torch.no_grad():
            noise = (0.2 * torch.randn_like(action)).clamp(-0.5, 0.5)
            next_action = (self.target(after) + noise).clamp(-1, 1)
            y = reward + GAMMA * (1 - ended) * torch.min(t1(after, next_action), t2(after, next_action))
        step(q_optim, F.mse_loss(q1(obs, action), y) + F.mse_loss(q2(obs, action), y))
        if count % 2 == 0:
            pi = self.actor(obs)
            q = q1(obs, pi)
            step(self.optim, -s["alpha"] / q.abs().mean().detach() * q.mean() + F.mse_loss(pi, action))
            for target, source in ((t1, q1), (t2, q2), (self.target, self.actor)):
                follow(target, source)


class IQL:
    def __init__(self) -> None:
        self.actor, self.log_std, self.value = nn.Sequential(net(3, 1), nn.Tanh()), nn.Parameter(torch.zeros(1)), net(3, 1)
        self.optim = torch.optim.Adam([*self.actor.parameters(), self.log_std], lr=s["learning_rate"])
        self.value_optim = adam(self.value, lr=s["learning_rate"])

    def __call__(self) -> None:
        obs, action, reward, after, ended = batch()
        with torch.no_grad():
            target = torch.min(t1(obs, action), t2(obs, action))
        u = target - self.value(obs).squeeze(-1)
        step(self.value_optim, (torch.abs(s["expectile"] - (u < 0).float()) * u**2).mean())
        with torch.no_grad():
            advantage = target - self.value(obs).squeeze(-1)
            y = reward + GAMMA * (1 - ended) * self.value(after).squeeze(-1)
        weight = torch.exp(s["beta"] * advantage).clamp(max=s["max_weight"])
        policy = torch.distributions.Normal(self.actor(obs), self.log_std.clamp(-5, 2).exp())
        step(self.optim, -(weight * policy.log_prob(action).sum(-1)).mean())
        step(q_optim, F.mse_loss(q1(obs, action), y) + F.mse_loss(q2(obs, action), y))
        follow(t1, q1)
        follow(t2, q2)


class CQL:
    def __init__(self) -> None:
        self.actor = net(3, 2)
        self.optim = adam(self.actor, lr=s["actor_learning_rate"])
        self.log_alpha = nn.Parameter(torch.zeros(()))
        self.alpha_optim = torch.optim.Adam([self.log_alpha], lr=s["learning_rate"])

    def sample(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        mu, log_std = self.actor(obs).chunk(2, -1)
        normal = torch.distributions.Normal(mu, log_std.clamp(-20, 2).exp())
        u = normal.rsample()
        correction = 2 * (math.log(2) - u - F.softplus(-2 * u))
        return u.tanh(), (normal.log_prob(u) - correction).sum(-1)

    def __call__(self) -> None:
        obs, action, reward, after, ended = batch()
        pi, log_prob = self.sample(obs)
        step(self.alpha_optim, -(self.log_alpha * (log_prob - 1.0).detach()).mean())
        alpha = self.log_alpha.exp().detach()
        step(self.optim, (alpha * log_prob - torch.min(q1(obs, pi), q2(obs, pi))).mean())
        with torch.no_grad():
            next_pi, _ = self.sample(after)
            y = reward + GAMMA * (1 - ended) * torch.min(t1(after, next_pi), t2(after, next_pi))
            n = s["actions"]
            many, many_after = obs.repeat_interleave(n, 0), after.repeat_interleave(n, 0)
            random = torch.empty(len(many), 1).uniform_(-1, 1)
            (current, lp_current), (following, lp_following) = self.sample(many), self.sample(many_after)
        loss: Any = 0.0
        for q in (q1, q2):
            value = q(obs, action)
            parts = [q(many, random) + math.log(2), q(many, following) - lp_following, q(many, current) - lp_current]
            pushed = torch.logsumexp(torch.cat([part.view(-1, n) for part in parts], 1), 1)
            loss = loss + F.mse_loss(value, y) + s["weight"] * (pushed - value).mean()
        step(q_optim, loss)
        follow(t1, q1)
        follow(t2, q2)


update: Any = {"td3_bc": TD3BC, "iql": IQL, "cql": CQL}[name]()


@torch.no_grad()
def predict(obs: Any) -> Any:
    out = update.actor((torch.from_numpy(obs) - mean) / std)
    return (out[:1].tanh() if name == "cql" else out).numpy()


timed(name, update, predict, torch=torch.__version__)
