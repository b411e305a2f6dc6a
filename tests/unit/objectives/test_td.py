"""Targets of the value-based and actor-critic rules by hand, and what one update of each may and may not change."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rl_training.algorithms.dqn import DQNAlgorithm, DQNConfig
from rl_training.algorithms.sac import SACAlgorithm, SACConfig
from rl_training.config import ModelConfig
from rl_training.models.critics import EnsembleCritic
from rl_training.models.policies import EpsilonGreedyPolicy, SquashedGaussianPolicy
from rl_training.models.q_nets import q_net
from rl_training.objectives.td import huber, td_target
from rl_training.specs import ActionSpec, Leaf, ObsSpec

MODEL = ModelConfig(hidden=(16,), activation="relu", init="default")
OBS = ObsSpec((Leaf("", (1,), "float32"),))
ACTION = ActionSpec("continuous", dim=1)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def constant(net: nn.Module, values: list[float]) -> None:
    """Make a network answer the same numbers always: every parameter 0 but the last bias."""
    parameters = list(net.parameters())
    for p in parameters:
        p.data.zero_()
    parameters[-1].data.copy_(torch.tensor(values).view(parameters[-1].shape))


def batch(reward: float = 1.0, discount: float = 0.99, rows: int = 4, **changes: Any) -> dict[str, Tensor]:
    return {
        "obs": torch.randn(rows, 1), "action": torch.rand(rows, 1) * 2 - 1, "next_obs": torch.randn(rows, 1),
        "reward": torch.full((rows,), reward), "discount": torch.full((rows,), discount), "weight": torch.ones(rows),
    } | changes  # fmt: skip


def parameters(module: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()]).clone()


def test_a_target_carries_no_gradient() -> None:
    value = torch.tensor([3.0, 3.0], requires_grad=True)
    target = td_target(torch.tensor([1.0, 1.0]), torch.tensor([0.99, 0.0]), value)
    assert target.tolist() == pytest.approx([3.97, 1.0])
    assert not target.requires_grad


def test_huber_is_quadratic_inside_one_and_linear_outside() -> None:
    error = torch.tensor([-3.0, -1.0, -0.5, 0.0, 0.5, 2.0], requires_grad=True)
    loss = huber(error)
    assert loss.tolist() == pytest.approx([2.5, 0.5, 0.125, 0.0, 0.125, 1.5])
    (slope,) = torch.autograd.grad(loss.sum(), error)
    assert slope.tolist() == pytest.approx([-1.0, -1.0, -0.5, 0.0, 0.5, 1.0])
    assert huber(torch.tensor([3.0]), kappa=2.0).item() == pytest.approx(2.0 * (3.0 - 1.0))


# ---- DQN ----


def dqn(
    hidden: tuple[int, ...] = (16,), actions: int = 2, obs: ObsSpec = OBS, sync_every: int = 10, **settings: Any
) -> DQNAlgorithm:
    model = ModelConfig(hidden=hidden, activation="relu", init="default")
    net = q_net(obs, ActionSpec("discrete", (actions,)), model)
    policy = EpsilonGreedyPolicy(obs, net, nn.Identity(), model, (1.0, 0.05), 100)
    return DQNAlgorithm(DQNConfig(**settings), policy, sync_every)


@pytest.mark.parametrize(("double", "target"), [(True, 2.0), (False, 5.0)])
def test_double_q_chooses_with_the_online_network(double: bool, target: float) -> None:
    rule = dqn(double=double)
    constant(rule.policy.net, [1.0, 3.0])
    constant(rule.target.net, [5.0, 2.0])
    _, out = rule.loss(batch(reward=0.0, discount=1.0, action=torch.ones(4, dtype=torch.int64)))
    assert (3.0 - out["td"]).tolist() == pytest.approx([target] * 4)


def test_dqn_weights_its_loss_but_not_its_errors() -> None:
    rule = dqn()
    constant(rule.policy.net, [2.0, 2.0])
    weight = torch.tensor([1.0, 0.5, 0.0, 0.25])
    loss, out = rule.loss(batch(reward=0.0, discount=0.0, action=torch.zeros(4, dtype=torch.int64), weight=weight))
    assert out["td"].tolist() == pytest.approx([2.0] * 4)
    assert loss.item() == pytest.approx(1.5 * 1.75 / 4)


def test_the_target_network_is_copied_at_its_interval() -> None:
    rule = dqn(sync_every=3, learning_rate=1e-2)
    start = parameters(rule.target.net)
    for update in range(6):
        rule.update(batch(action=torch.zeros(4, dtype=torch.int64)), **rule.schedule(update))
        equal = torch.equal(parameters(rule.target.net), parameters(rule.policy.net))
        assert equal == (update % 3 == 2), f"after update {update + 1}"
    assert not torch.equal(parameters(rule.target.net), start)


def test_dqn_solves_a_chain_exactly() -> None:
    """Five states in a row, reward 1 on leaving the last: Q* = 0.9^k; a linear network on one-hot states can say it exactly."""
    spec = ObsSpec((Leaf("", (5,), "float32"),))
    rule = dqn(hidden=(), actions=1, obs=spec, sync_every=50, learning_rate=1e-2)
    eye = torch.eye(5)
    chain = {
        "obs": eye, "action": torch.zeros(5, dtype=torch.int64), "next_obs": eye.roll(-1, 0),
        "reward": torch.tensor([0.0, 0, 0, 0, 1]), "discount": torch.tensor([0.9, 0.9, 0.9, 0.9, 0.0]), "weight": torch.ones(5),
    }  # fmt: skip
    for update in range(3_000):
        rule.update(chain, **rule.schedule(update))
    with torch.no_grad():
        got = rule.policy.net(eye).squeeze(-1).tolist()
    assert got == pytest.approx([0.6561, 0.729, 0.81, 0.9, 1.0], abs=1e-3)


# ---- SAC ----


def sac(model: ModelConfig = MODEL, **settings: Any) -> SACAlgorithm:
    policy = SquashedGaussianPolicy(OBS, ACTION, model)
    critic = EnsembleCritic(OBS, ACTION, model, members=2)
    return SACAlgorithm(SACConfig(**settings), policy, critic, target_entropy=-1.0)


def test_the_soft_target_takes_the_lesser_critic_and_adds_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = sac(alpha=0.5)
    constant(rule.critic, [0.0, 0.0])
    constant(rule.target.net, [2.0, 7.0])
    monkeypatch.setattr(rule.policy, "sample", lambda obs: (torch.zeros(len(obs), 1), torch.full((len(obs),), -1.0)))
    _, out = rule.critic_loss(batch(reward=1.0, discount=0.9))
    assert out["td"].tolist() == pytest.approx([3.25] * 4)
    _, out = rule.critic_loss(batch(reward=1.0, discount=0.0))
    assert out["td"].tolist() == pytest.approx([1.0] * 4), "after the end there is neither value nor entropy"


def test_the_critic_loss_is_the_sum_of_both_mean_squared_errors() -> None:
    rule = sac()
    constant(rule.critic, [1.0, 4.0])
    loss, _ = rule.critic_loss(batch(reward=2.0, discount=0.0))
    assert loss.item() == pytest.approx(1.0 + 4.0)
    loss, _ = rule.critic_loss(batch(reward=2.0, discount=0.0, weight=torch.tensor([1.0, 0.0, 0.0, 0.0])))
    assert loss.item() == pytest.approx((1.0 + 4.0) / 4), "importance weights scale each row"


def test_the_actor_follows_the_lesser_critic(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = sac(alpha=0.5)
    constant(rule.critic, [3.0, -2.0])
    monkeypatch.setattr(rule.policy, "sample", lambda obs: (torch.zeros(len(obs), 1), torch.full((len(obs),), -1.0)))
    loss, out = rule.actor_loss(batch())
    assert loss.item() == pytest.approx(0.5 * -1.0 + 2.0)
    assert out["entropy"].item() == pytest.approx(1.0)


def test_the_temperature_falls_above_the_target_entropy_and_rises_below() -> None:
    rule = sac(learning_rate=1e-2)
    entropy = -torch.tensor([-1.0, -3.0]).mean()
    loss, _ = rule.alpha_loss(entropy)
    (gradient,) = torch.autograd.grad(loss, rule.log_alpha)
    assert gradient.item() == pytest.approx(3.0)
    path = [rule.log_alpha.item()]
    for _ in range(5):
        rule.alpha_optim.minimize("alpha_loss", torch.tensor(2.0))
        path.append(rule.log_alpha.item())
    assert path == sorted(path, reverse=True) and path[-1] < path[0], path
    low = sac(learning_rate=1e-2)
    low.alpha_optim.minimize("alpha_loss", torch.tensor(-1.5))
    assert low.log_alpha.item() > 0.0


def test_each_loss_of_sac_moves_only_its_own_part() -> None:
    rule = sac(learning_rate=1e-2)
    parts = {"critic": rule.critic, "policy": rule.policy, "target": rule.target}

    def changed(run: Any) -> set[str]:
        old = {name: parameters(part) for name, part in parts.items()} | {"alpha": rule.log_alpha.detach().clone()}
        run()
        new = {name: parameters(part) for name, part in parts.items()} | {"alpha": rule.log_alpha.detach()}
        return {name for name in old if not torch.equal(old[name], new[name])}

    data = batch()
    assert changed(lambda: rule.critic_optim.minimize("critic_loss", data)) == {"critic"}
    assert changed(lambda: rule.actor_optim.minimize("actor_loss", data)) == {"policy"}
    assert changed(lambda: rule.alpha_optim.minimize("alpha_loss", torch.tensor(0.0))) == {"alpha"}
    assert changed(lambda: rule.update(data)) == {"critic", "policy", "target", "alpha"}
    rule.config = SACConfig(learn_alpha=False)
    assert changed(lambda: rule.update(data)) == {"critic", "policy", "target"}


def test_target_critics_move_by_tau() -> None:
    rule = sac(tau=0.25)
    constant(rule.critic, [1.0, 2.0])
    constant(rule.target.net, [5.0, 6.0])
    rule.target.update()
    with torch.no_grad():
        got = rule.target(torch.zeros(1, 1), torch.zeros(1, 1)).squeeze(-1).tolist()
    assert got == pytest.approx([4.0, 5.0])


def test_without_values_the_actor_finds_the_tanh_gaussian_of_greatest_entropy() -> None:
    """Critics fixed to 0, temperature 1, one state: sigma .8744, entropy .68364. Without the tanh term sigma would run away."""
    rule = sac(ModelConfig(hidden=(), init="default"), learning_rate=2e-2)
    constant(rule.critic, [0.0, 0.0])
    data = batch(obs=torch.ones(2048, 1))
    for _ in range(300):
        rule.actor_optim.minimize("actor_loss", data)
    rule.actor_optim.lr.fill_(2e-3)
    trace = []
    for _ in range(300):
        out = rule.actor_optim.minimize("actor_loss", data)
        with torch.no_grad():
            mean, log_std = rule.policy.net(torch.ones(1, 1))[0]
        trace.append([mean.item(), log_std.exp().item(), out["entropy"].item()])
    mean, std, entropy = torch.tensor(trace).mean(0).tolist()
    assert (mean, std, entropy) == pytest.approx((0.0, 0.8744, 0.68364), abs=0.02)
    assert entropy == pytest.approx(0.68364, abs=0.003), f"mean {mean}, std {std}"
