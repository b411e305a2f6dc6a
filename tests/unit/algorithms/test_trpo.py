"""TRPO: exact steps, curvature against finite differences, a KL bound that always holds, and refused steps without a trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from rollout_family import ACTIONS, bandit, rollout, rule, weights
from torch import Tensor
from torch.distributions import Categorical, Normal, kl_divergence
from torch.func import functional_call

from rl_training import TRPO
from rl_training.algorithms import trust_region
from rl_training.errors import ConfigError
from rl_training.specs import ActionSpec
from rl_training.testing import OneState

TWO = ActionSpec("discrete", (2,))
QUIET: dict[str, Any] = {"progress": "quiet", "tensorboard": False, "num_episodes": 0, "checkpoint_every": 0}


def distributions(trpo: Any, kind: str, obs: Tensor, parameters: dict[str, Tensor] | None = None) -> list[Any]:
    """What the policy does, as torch has it; with other parameters where they are given."""
    own = dict(trpo.policy.named_parameters())
    given = own if parameters is None else parameters
    net = {name.removeprefix("net."): p for name, p in given.items() if name.startswith("net.")}
    outputs = functional_call(trpo.policy.net, net, (obs,))
    if kind == "continuous":
        return [Normal(outputs, given["log_std"].exp().expand_as(outputs))]
    return [Categorical(logits=part) for part in outputs.split(ACTIONS[kind].nvec, -1)]


def mean_kl(old: list[Any], new: list[Any]) -> Tensor:
    parts = [kl_divergence(p, q) for p, q in zip(old, new)]
    return sum(part.sum(-1) if part.ndim == 2 else part for part in parts).mean()


def gain(trpo: Any, kind: str, batch: dict[str, Tensor]) -> float:
    """The surrogate, apart from a constant, by torch's own distributions."""
    parts, advantage = distributions(trpo, kind, batch["obs"]), batch["advantage"]
    if kind == "continuous":
        log_prob = parts[0].log_prob(batch["action"]).sum(-1)
    else:
        actions = batch["action"].reshape(len(advantage), -1).unbind(-1)
        log_prob = sum(part.log_prob(action) for part, action in zip(parts, actions))
    ratio = (log_prob - batch["log_prob"]).exp()
    return (ratio * (advantage - advantage.mean()) / advantage.std()).mean().item()


def arms(log_prob: float, action: Any) -> dict[str, Tensor]:
    """Two steps in the state of zeros: the first was good, the second was bad."""
    return {"obs": torch.zeros(2, 3), "action": torch.tensor(action), "log_prob": torch.full((2,), log_prob),
            "advantage": torch.tensor([1.0, -1.0])}  # fmt: skip


@pytest.mark.parametrize(("damping", "length", "kl"), [(0.0, 0.141421, 0.0099668), (0.1, 0.129099, 0.008310)])
def test_the_step_of_a_two_armed_bandit(damping: float, length: float, kl: float) -> None:
    trpo = bandit("trpo", TWO, cg_damping=damping)
    out = trpo.update(arms(np.log(0.5), [0, 1]), whole=True)
    assert trpo.policy.net[-1].bias.tolist() == pytest.approx([length, -length], abs=2e-6)
    assert (out["kl"].item(), out["accepted"].item()) == (pytest.approx(kl, abs=1e-6), 1.0)
    # Advantages of 1 and -1 are standardized to 2**-0.5 and -2**-0.5.
    p = 1 / (1 + np.exp(-2 * length))
    assert out["improvement"].item() == pytest.approx((p - 0.5) * 2**0.5, rel=1e-4)


def test_the_step_of_a_gaussian_bandit() -> None:
    """Actions one deviation away leave the deviation as it is: F = 4 for the mean, and |step| = sqrt(2 delta) sigma."""
    trpo = bandit("trpo", ActionSpec("continuous", dim=1), log_std=np.log(0.5), target_kl=0.01, cg_damping=0.0)
    log_prob = -0.5 - np.log(0.5) - 0.5 * np.log(2 * np.pi)
    batch = arms(log_prob, [[0.5], [-0.5]])
    out = trpo.update(batch, whole=True)
    mean = trpo.policy.net[-1].bias.item()
    # The full step is on the bound; rounding decides whether it or the next is taken.
    assert min(abs(mean - length) for length in (0.0707107, 0.8 * 0.0707107)) < 1e-6, mean
    assert trpo.policy.log_std.item() == pytest.approx(np.log(0.5), abs=1e-6)
    assert out["kl"].item() == pytest.approx((mean / 0.5) ** 2 / 2, rel=1e-4)


@pytest.mark.parametrize("kind", ACTIONS)
def test_products_with_the_curvature_are_differences_of_the_kl_gradient(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trpo = rule("trpo", ACTIONS[kind], cg_damping=0.1, log_std=-0.7).double()
    trpo.bind()
    batch = rollout(rule("trpo", ACTIONS[kind], log_std=-0.7))
    batch = {key: value.double() if value.is_floating_point() else value for key, value in batch.items()}
    taken: list[Callable[[Tensor], Tensor]] = []

    def record(gradient: Tensor, product: Callable[[Tensor], Tensor], bound: float, steps: int) -> Tensor:
        taken.append(product)
        return torch.zeros_like(gradient)

    monkeypatch.setattr(trust_region, "natural_step", record)
    trpo.update(batch, whole=True)
    own = {name: p.detach().clone() for name, p in trpo.policy.named_parameters()}
    old = [type(d)(logits=d.logits.detach()) if kind != "continuous" else Normal(d.loc.detach(), d.scale.detach())
           for d in distributions(trpo, kind, batch["obs"])]  # fmt: skip

    def slope(shift: dict[str, Tensor]) -> Tensor:
        at = {name: (p + shift[name]).requires_grad_() for name, p in own.items()}
        kl = mean_kl(old, distributions(trpo, kind, batch["obs"], at))
        return torch.cat([g.reshape(-1) for g in torch.autograd.grad(kl, list(at.values()))])

    for seed in range(3):
        torch.manual_seed(seed)
        names = [name.removeprefix("policy.") for name in trpo.policy_optim.names]
        assert sorted(names) == sorted(own), "every parameter of the policy, the deviation too, and none of the critic"
        v = {name: torch.randn_like(p) for name, p in own.items()}
        forward, back = ({name: sign * 1e-5 * part for name, part in v.items()} for sign in (1, -1))
        difference = (slope(forward) - slope(back)) / 2e-5 + 0.1 * torch.cat([part.reshape(-1) for part in v.values()])
        product = taken[0](torch.cat([v[name].reshape(-1) for name in names]))
        parts = dict(zip(names, product.split(trpo.policy_optim.sizes)))
        product = torch.cat([parts[name] for name in own])
        assert (product - difference).norm() / difference.norm() < 1e-6


@pytest.mark.parametrize("kind", ACTIONS)
@pytest.mark.parametrize("settings", [{}, {"target_kl": 0.5, "cg_damping": 1e-3}], ids=["as usual", "far"])
def test_no_step_leaves_the_bound_and_each_is_better(kind: str, settings: dict[str, float]) -> None:
    trpo = rule("trpo", ACTIONS[kind], **settings)
    bound, lengths, accepted = settings.get("target_kl", 0.01), [], 0
    for seed in range(40):
        batch = rollout(trpo, rows=32, seed=seed, spread=3.0)
        with torch.no_grad():
            old, before = distributions(trpo, kind, batch["obs"]), gain(trpo, kind, batch)
            kept = weights(trpo.policy)
            out = {name: value.item() for name, value in trpo.update(batch, whole=True).items()}
            kl, better = mean_kl(old, distributions(trpo, kind, batch["obs"])).item(), gain(trpo, kind, batch) - before
        assert set(out) == {"kl", "improvement", "accepted"}
        assert kl <= bound * (1 + 1e-3) and out["kl"] <= bound, (seed, kl, out)
        assert out["kl"] == pytest.approx(kl, rel=1e-3, abs=1e-6), seed
        assert out["improvement"] == pytest.approx(better, rel=1e-3, abs=1e-5), seed
        if out["accepted"]:
            assert better > 0, (seed, better)
            lengths.append(kl / bound)
        else:
            assert weights(trpo.policy) == kept, seed
        accepted += int(out["accepted"])
    assert accepted > 30, f"{accepted} of 40 steps were taken"
    assert max(lengths) > 0.6, "steps use the bound"


@pytest.mark.parametrize("kind", ACTIONS)
def test_a_refused_step_leaves_the_parameters_bit_for_bit(kind: str) -> None:
    trpo = rule("trpo", ACTIONS[kind], target_kl=10.0, backtrack_steps=1, cg_damping=1e-8)
    trpo.update(rollout(trpo), whole=False)
    batch, kept = rollout(trpo, spread=30.0), weights(trpo)
    out = trpo.update(batch, whole=True)
    assert out == {"kl": 0.0, "improvement": 0.0, "accepted": 0.0}, "so far a step cannot be right"
    assert weights(trpo) == kept
    level = batch | {"advantage": torch.full((64,), 3.0)}
    assert trpo.update(level, whole=True)["accepted"].item() == 0.0, "advantages that are all the same say nothing"
    assert weights(trpo) == kept


def test_the_policy_moves_on_whole_rollouts_and_the_critic_on_minibatches() -> None:
    trpo = rule("trpo", ACTIONS["continuous"])
    batch = rollout(trpo)
    old = weights(trpo.critic), weights(trpo.policy.net), weights(trpo.policy)
    trpo.update(batch, whole=True)
    new = weights(trpo.critic), weights(trpo.policy.net), weights(trpo.policy)
    assert new[0] == old[0] and new[1] != old[1]
    assert trpo.policy.log_std.abs().min() > 0, "the deviation is a parameter of the policy"
    out = trpo.update(batch, whole=False)
    assert weights(trpo.policy) == new[2] and weights(trpo.critic) != new[0]
    assert set(out) == {"value_loss"}


def test_the_critic_regresses_to_the_returns() -> None:
    trpo = bandit("trpo", TWO)
    trpo.critic.body[-1].bias.data.fill_(1.0)
    batch = {"obs": torch.zeros(2, 3), "return": torch.tensor([5.0, 2.0])}
    loss, out = trpo.critic_loss(batch)
    assert loss.item() == pytest.approx((16.0 + 1.0) / 2) and out["value_loss"].item() == loss.item()
    assert torch.autograd.grad(loss, trpo.critic.body[-1].bias)[0].item() == pytest.approx(-4.0 - 1.0)


def test_the_whole_rollout_comes_first_and_then_the_minibatches_of_the_critic() -> None:
    agent = TRPO("CartPole-v1", num_envs=2, num_steps=8, critic_epochs=3, minibatches=4, hidden=(4,))
    algorithm, buffer = agent.parts.algorithm, agent.parts.buffer
    assert buffer.updates_per_step == 13 / 16
    n = 0
    for _ in range(3):
        no, obs = np.zeros((8, 2), np.bool_), np.zeros((8, 2, 4), np.float32)
        buffer.add({"obs": obs, "next_obs": obs, "action": np.zeros((8, 2), np.int64), "reward": no.astype(np.float32),
                    "terminated": no, "truncated": no, "outputs": np.zeros((8, 2, 2), np.float32)})  # fmt: skip
        for batch in buffer.batches(16, algorithm.prepare):
            assert algorithm.schedule(n) == {"whole": len(batch["action"]) == 16}, n
            n += 1
    assert n == 3 * 13


def test_minibatches_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ConfigError, match="do not divide into 7 minibatches"):
        TRPO("CartPole-v1", minibatches=7)


def test_the_step_size_of_the_critic_falls_with_progress_only_when_asked() -> None:
    for asked, left in ((False, 1e-3), (True, 2.5e-4)):
        trpo = rule("trpo", TWO, anneal_lr=asked)
        trpo.anneal(0.75)
        assert trpo.critic_optim.lr.item() == pytest.approx(left)


def test_endless_reward_under_a_time_limit_is_worth_ten(tmp_path: Any) -> None:
    """Reward 1 for ever, cut every 10 steps, gamma .9; with truncation taken for an end it would be worth 4.28."""
    settings = QUIET | {"gamma": 0.9, "learning_rate": 0.05, "anneal_lr": True, "hidden": (4,), "num_steps": 20}
    agent = TRPO(lambda: OneState(count=False), total_steps=12_000, critic_epochs=4, minibatches=4,
                 output_dir=str(tmp_path), **settings).learn()  # fmt: skip
    assert agent.parts.algorithm.critic(torch.zeros(1, 1)).item() == pytest.approx(10.0, abs=0.01)
