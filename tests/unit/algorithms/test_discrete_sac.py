"""Discrete SAC against closed forms: soft values, losses that are sums over actions, the temperature, and the best policy."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from one_state import trained
from sac_family import changed_parts, constant_outputs
from torch import Tensor

from rl_training import DiscreteSAC


def algorithm(**settings: Any) -> Any:
    """The learning rule of a small agent on CartPole (four numbers seen, two actions)."""
    torch.set_num_threads(1)
    return DiscreteSAC("CartPole-v1", **({"hidden": (8, 8)} | settings)).parts.algorithm


def batch(rows: int = 16, seed: int = 0) -> dict[str, Tensor]:
    """Random transitions; the last of them ends its episode."""
    generator = torch.Generator().manual_seed(seed)
    obs, next_obs = torch.randn((2, rows, 4), generator=generator)
    discount = torch.full((rows,), 0.9)
    discount[-1] = 0.0
    return {"obs": obs, "next_obs": next_obs, "action": torch.randint(0, 2, (rows,), generator=generator),
            "reward": torch.randn(rows, generator=generator), "discount": discount, "weight": torch.ones(rows)}  # fmt: skip


def constant_policy(rule: Any, probabilities: list[float]) -> None:
    """Let the policy have these probabilities whatever it sees."""
    last = rule.policy.net[-1]
    last.weight.data.zero_()
    last.bias.data.copy_(torch.tensor(probabilities).log())


def rule_by_hand(alpha: float, probabilities: list[float], q: list[list[float]], **settings: Any) -> Any:
    """Critics and target critics that say `q` (a row for each member), and a policy of these probabilities."""
    rule = algorithm(alpha=alpha, **settings)
    for critic in (rule.critic, rule.target.net):
        constant_outputs(critic, q)
    constant_policy(rule, probabilities)
    return rule


SOFTMAX = [0.119203, 0.880797]  # of Q / alpha = [2, 4]


@pytest.mark.parametrize(
    ("alpha", "probabilities", "value"), [(0.2, [0.5, 0.5], 1.638629), (0.5, SOFTMAX, 0.5 * math.log(math.exp(2) + math.exp(4)))]
)
def test_the_soft_value_by_hand(alpha: float, probabilities: list[float], value: float) -> None:
    rule = rule_by_hand(alpha, probabilities, [[1.0, 2.0], [1.0, 2.0]])
    assert rule.next_value(batch(3)["next_obs"]).tolist() == pytest.approx([value] * 3, abs=1e-5)
    assert 0.5 * math.log(math.exp(2) + math.exp(4)) == pytest.approx(2.063464, abs=1e-6)


def check_target(change: Callable[[Any], None]) -> None:
    """Members say [1, 4] and [3, 2]: the lesser of each action, [1, 2], is what counts. y = r + 0.9 * 1.638629, or r alone."""
    rule = rule_by_hand(0.2, [0.5, 0.5], [[1.0, 4.0], [3.0, 2.0]])
    change(rule)
    constant_outputs(rule.critic, [[0.0, 0.0], [0.0, 0.0]])
    data = batch(2) | {"reward": torch.ones(2)}
    assert rule.critic_loss(data)[1]["td"].tolist() == pytest.approx([1 + 0.9 * 1.638629, 1.0], abs=1e-5)


def test_the_target_is_of_the_lesser_critic_in_each_action() -> None:
    check_target(lambda rule: None)

    def lesser_after_the_expectation(rule: Any) -> None:
        def next_value(obs: Any) -> Tensor:
            log_pi = rule.policy.net(obs).log_softmax(-1)
            return (log_pi.exp() * (rule.target(obs) - rule.log_alpha.exp() * log_pi)).sum(-1).min(0).values

        rule.next_value = next_value

    def without_entropy(rule: Any) -> None:
        rule.next_value = lambda obs: (rule.policy.net(obs).softmax(-1) * rule.target(obs).min(0).values).sum(-1)

    def value_of_the_critic_itself(rule: Any) -> None:
        rule.target = rule.critic

    for broken in (lesser_after_the_expectation, without_entropy, value_of_the_critic_itself):
        with pytest.raises(AssertionError):
            check_target(broken)


def test_critics_regress_the_value_of_the_taken_action() -> None:
    rule = rule_by_hand(0.2, [0.5, 0.5], [[1.0, 4.0], [3.0, -2.0]])
    weight = torch.tensor([1.0, 0.5, 0.0, 0.25])
    data = batch(4) | {"reward": torch.zeros(4), "discount": torch.zeros(4), "weight": weight}
    data["action"] = torch.tensor([0, 1, 0, 1])
    loss, out = rule.critic_loss(data)
    assert out["td"].tolist() == pytest.approx([2.0, 3.0, 2.0, 3.0]), "priorities are mean absolute errors, unweighted"
    assert loss.item() == pytest.approx((1 + 9 + 0.5 * (16 + 4) + 0.25 * (16 + 4)) / 4)


def test_the_actor_loss_sums_over_actions() -> None:
    """-V of the state: a mean over actions would halve it. The critics' lesser values count."""
    rule = rule_by_hand(0.2, [0.5, 0.5], [[1.0, 4.0], [3.0, 2.0]])
    loss, out = rule.actor_loss(batch(5))
    assert loss.item() == pytest.approx(-1.638629, abs=1e-5)
    assert out["entropy"].item() == pytest.approx(math.log(2), abs=1e-6)


def settled(**settings: Any) -> list[float]:
    """The probabilities to which the actor alone goes on critics that say [1, 2]."""
    torch.manual_seed(0)
    rule = algorithm(alpha=0.5, learning_rate=0.02, **settings)
    constant_outputs(rule.critic, [[1.0, 2.0], [1.0, 2.0]])
    data = {"obs": torch.ones(4, 4)}
    for _ in range(400):
        rule.actor_optim.minimize("actor_loss", data)
    return rule.policy.net(data["obs"])[0].softmax(-1).tolist()


@pytest.mark.parametrize("init", ["default", "orthogonal"])
def test_the_actor_settles_at_the_softmax_of_the_values(init: str) -> None:
    assert settled(init=init) == pytest.approx(SOFTMAX, abs=1e-3)


def test_probabilities_of_zero_are_no_numbers_to_fear() -> None:
    rule = algorithm()
    rule.policy.net[-1].bias.data.copy_(torch.tensor([1e3, -1e3]))
    for n in range(3):
        out = rule.update(batch(seed=n), **rule.schedule(n))
        assert all(value.isfinite().all() for value in out.values()), out
    assert all(p.isfinite().all() for p in rule.parameters())


@pytest.mark.parametrize(
    ("part", "actions", "entropy"),
    [(0.98, 2, 0.679284), (0.98, 4, 1.358568), (0.98, 18, 2.832564),
     (0.89, 2, 0.616901), (0.89, 4, 1.233802), (0.89, 18, 2.572431)],
)  # fmt: skip
def test_the_target_entropy_is_a_part_of_the_largest(part: float, actions: int, entropy: float) -> None:
    env = gym.make("CartPole-v1")
    agent = DiscreteSAC(
        lambda: gym.wrappers.TransformAction(env, lambda a: int(a % 2), gym.spaces.Discrete(actions)),
        hidden=(8,), entropy_fraction=part,
    )  # fmt: skip
    assert agent.parts.algorithm.target_entropy == pytest.approx(entropy, abs=1e-6)


@pytest.mark.parametrize(("probabilities", "direction"), [([0.5, 0.5], -1.0), ([0.999, 0.001], 1.0)])
def test_entropy_above_the_target_lowers_the_temperature(probabilities: list[float], direction: float) -> None:
    """The actor is frozen at entropy 0.693 or 0.008; half of the largest, 0.347, is wanted."""
    rule = algorithm(entropy_fraction=0.5)
    constant_policy(rule, probabilities)
    before, entropy = 0.0, rule.actor_loss(batch())[1]["entropy"]
    loss, _ = rule.alpha_loss(entropy)
    assert torch.autograd.grad(loss, rule.log_alpha)[0].item() == pytest.approx(entropy.item() - 0.5 * math.log(2))
    for _ in range(20):
        rule.alpha_optim.minimize("alpha_loss", entropy)
        after = rule.log_alpha.item()
        assert (after - before) * direction > 0, (before, after)
        before = after


def test_a_fixed_temperature_stays() -> None:
    rule = algorithm(alpha=0.05, learn_alpha=False)
    assert "log_alpha" not in changed_parts(rule, lambda: rule.update(batch()))
    assert rule.log_alpha.exp().item() == pytest.approx(0.05)


def test_each_loss_moves_its_own_part_alone() -> None:
    losses = {"critic": ("critic", batch()), "actor": ("policy", batch()), "alpha": ("log_alpha", torch.tensor(0.6))}
    for loss, (part, data) in losses.items():
        rule = algorithm()
        update = partial(getattr(rule, f"{loss}_optim").minimize, f"{loss}_loss", data)
        assert changed_parts(rule, update) == {part}


def test_targets_follow_slowly_or_are_copied_at_their_interval() -> None:
    slow = algorithm(tau=0.25)
    slow.target.flat.zero_()
    slow.target._source[0].flat.fill_(1.0)
    slow.target.update()
    assert slow.target.flat.tolist() == pytest.approx([0.25] * slow.target.flat.numel())

    copied = algorithm(tau=1.0, target_update_interval=6, train_freq=2, learning_rate=1e-2)  # every third update
    for n in range(6):
        moved = "target" in changed_parts(copied, partial(copied.update, batch(seed=n), **copied.schedule(n)))
        assert moved == (n % 3 == 2), n
    assert torch.equal(copied.target.flat, copied.critic_optim.flat)


@pytest.mark.parametrize(("ends", "kept"), [(False, 0.9), (True, 0.9 * 0.9)])
def test_a_time_limit_is_no_end(ends: bool, kept: float, tmp_path: Path) -> None:
    """Q = 1 + kept * (Q + alpha * log 2): 16.238 after a limit, 8.218 after ends; both actions are worth the same."""
    rule = trained("discrete_sac", gym.spaces.Discrete(2), ends, tmp_path, learn_alpha=False)
    q = rule.critic(torch.ones(1, 1)).flatten().tolist()
    assert q == pytest.approx([(1 + kept * math.log(2)) / (1 - kept)] * 4, abs=0.4)


def test_rewards_are_summed_and_rows_drawn_by_their_errors(tmp_path: Path) -> None:
    agent = DiscreteSAC(
        "CartPole-v1", hidden=(8, 8), n_step=3, priority=0.6, learning_starts=50, total_steps=200, batch_size=16, num_episodes=0,
        progress="quiet", tensorboard=False, output_dir=str(tmp_path),
    ).learn()  # fmt: skip
    tree, batch = agent.parts.buffer.tree, next(iter(agent.parts.buffer.batches(1, lambda rollout: rollout)))
    assert len(np.unique(tree.tree[tree.leaves :])) > 100, "each row has the priority of its own error"
    assert 0.99**3 in [pytest.approx(float(discount)) for discount in batch["discount"]]
    assert all(p.isfinite().all() for p in agent.parts.algorithm.parameters())


def test_acting_samples_the_softmax_and_evaluation_takes_the_likeliest() -> None:
    policy = algorithm().policy
    logits = np.log(np.tile(np.array(SOFTMAX, np.float32), (20_000, 1)))
    assert policy.choose(logits, np.random.default_rng(0), 0, explore=True).mean() == pytest.approx(SOFTMAX[1], abs=0.01)
    assert (policy.choose(logits, np.random.default_rng(0), 0, explore=False) == 1).all()
