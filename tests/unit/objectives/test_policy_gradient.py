"""PPO's loss by hand: the surrogate's table, the value clip, KL estimates, and the first minibatch of a rollout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rl_training.algorithms.ppo import PPOAlgorithm, PPOConfig, ppo_loss
from rl_training.config import ModelConfig
from rl_training.data.rollout_buffer import RolloutBuffer
from rl_training.models.critics import ValueNet
from rl_training.models.policies import CategoricalPolicy, GaussianPolicy
from rl_training.objectives.policy_gradient import (
    approximate_kl,
    clipped_surrogate,
    clipped_value_loss,
    normalize_advantage,
)
from rl_training.specs import ActionSpec, Leaf, ObsSpec

OBS = ObsSpec((Leaf("", (3,), "float32"),))


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "slope"),
    [(0.5, 1.0, -0.5, -1.0), (0.5, -1.0, 0.8, 0.0), (1.5, 1.0, -1.2, 0.0), (1.5, -1.0, 1.5, 1.0)],
)
def test_the_surrogate_is_clipped_where_moving_further_would_pay(
    ratio: float, advantage: float, loss: float, slope: float
) -> None:
    log_ratio = torch.tensor([ratio], dtype=torch.float64).log().requires_grad_()
    value = clipped_surrogate(log_ratio, torch.tensor([advantage], dtype=torch.float64), 0.2)
    gradient = torch.autograd.grad(value.sum(), log_ratio)[0] / ratio  # with respect to the ratio
    assert value.item() == pytest.approx(loss), (ratio, advantage)
    assert gradient.item() == pytest.approx(slope), (ratio, advantage)


def test_the_clip_range_may_be_a_tensor() -> None:
    log_ratio = torch.tensor([1.5]).log()
    assert clipped_surrogate(log_ratio, torch.ones(1), torch.tensor(0.1)).item() == pytest.approx(-1.1)


@pytest.mark.parametrize(
    ("value", "old", "target", "clip", "loss"),
    [
        (1.0, 0.0, 2.0, 0.2, 3.24),  # 1.62 with the paper's factor 1/2
        (1.0, 2.0, 2.0, 0.2, 1.0),  # the worse of the two: the clipped error alone would be 0.04
        (0.1, 0.0, 2.0, 0.2, 3.61),  # inside the range
        (1.0, 0.0, 2.0, None, 1.0),
    ],
)
def test_the_value_loss_is_the_worse_of_plain_and_clipped(
    value: float, old: float, target: float, clip: float | None, loss: float
) -> None:
    got = clipped_value_loss(*(torch.tensor([x]) for x in (value, old, target)), clip)
    assert got.item() == pytest.approx(loss, rel=1e-6)


def test_the_kl_estimate() -> None:
    log_ratio = torch.tensor([0.1, -0.1, 0.2], dtype=torch.float64)
    assert approximate_kl(log_ratio).mean().item() == pytest.approx(0.0105, abs=5e-5)
    assert (approximate_kl(torch.linspace(-3, 3, 101)) >= 0).all()


def test_advantages_are_standardized_with_the_sample_deviation() -> None:
    got = normalize_advantage(torch.tensor([1.0, 2.0, 3.0, 6.0]))
    deviation = np.std([1, 2, 3, 6], ddof=1)
    assert got.tolist() == pytest.approx(((np.array([1, 2, 3, 6]) - 3) / deviation).tolist())
    assert normalize_advantage(torch.tensor([4.0])).tolist() == [4.0], "one row has no deviation"
    assert normalize_advantage(torch.full((5,), 7.0)).tolist() == [0.0] * 5


def minibatch(**changes: Any) -> dict[str, torch.Tensor]:
    rows = {
        "log_prob": [0.0] * 4, "new_log_prob": [0.5, 0.5, 1.5, 1.5], "advantage": [1.0, -1.0, 1.0, -1.0],
        "value": [0.0] * 4, "new_value": [1.0, 2.0, 3.0, 4.0], "return": [0.0] * 4, "entropy": [0.1, 0.2, 0.3, 0.4],
    } | changes  # fmt: skip
    batch = {key: torch.tensor(value) for key, value in rows.items()}
    return batch | {"new_log_prob": batch["new_log_prob"].log()}


def test_the_whole_loss() -> None:
    out = ppo_loss(minibatch(), 0.2, ent_coef=0.01, vf_coef=0.5, normalize=False)
    assert out["policy_loss"].item() == pytest.approx((-0.5 + 0.8 - 1.2 + 1.5) / 4)
    assert out["value_loss"].item() == pytest.approx((1 + 4 + 9 + 16) / 4), "the plain mean squared error, not halved"
    assert out["entropy_loss"].item() == pytest.approx(-0.25)
    assert out["clip_fraction"].item() == 1.0
    assert out["loss"].item() == pytest.approx(0.15 + 0.5 * 7.5 - 0.01 * 0.25)


def test_the_whole_loss_with_clipped_values_and_standardized_advantages() -> None:
    out = ppo_loss(minibatch(value=[1.0, 1.0, 4.0, 4.0]), 0.2, 0.0, 0.5, clip_value=True)
    # Value 3 from 4 is clipped to 3.8, value 2 from 1 to 1.2 (plain 4 is worse).
    assert out["value_loss"].item() == pytest.approx((1 + 4 + 3.8**2 + 16) / 4)
    scale = np.std([1, -1, 1, -1], ddof=1)
    assert out["policy_loss"].item() == pytest.approx(0.15 / scale)


def algorithm(continuous: bool, **settings: Any) -> PPOAlgorithm:
    model = ModelConfig()
    if continuous:
        policy: Any = GaussianPolicy(OBS, ActionSpec("continuous", dim=2), model)
    else:
        policy = CategoricalPolicy(OBS, ActionSpec("discrete", (4,)), model)
    return PPOAlgorithm(PPOConfig(**settings), policy, ValueNet(OBS, model))


def rollout(continuous: bool, steps: int = 8, envs: int = 4) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    action = rng.standard_normal((steps, envs, 2)).astype(np.float32) if continuous else rng.integers(0, 4, (steps, envs))
    return {
        "obs": rng.standard_normal((steps, envs, 3)).astype(np.float32), "action": action,
        "reward": rng.standard_normal((steps, envs)).astype(np.float32),
        "terminated": rng.random((steps, envs)) < 0.1, "truncated": rng.random((steps, envs)) < 0.1,
        "next_obs": rng.standard_normal((steps, envs, 3)).astype(np.float32),
    }  # fmt: skip


def acted(ppo: PPOAlgorithm, raw: dict[str, Any]) -> dict[str, Any]:
    """The rollout with what the policy gave while it acted."""
    with torch.no_grad():
        return raw | {"outputs": ppo.policy(torch.from_numpy(raw["obs"])).numpy()}


def test_log_probabilities_are_those_of_the_policy_that_acted() -> None:
    ppo, raw = algorithm(False), rollout(False)
    logits = torch.randn(8, 4, 4)
    tensors = {key: torch.from_numpy(part) for key, part in raw.items()} | {"outputs": logits}
    wanted = logits.log_softmax(-1).gather(-1, tensors["action"][..., None]).squeeze(-1)
    torch.testing.assert_close(ppo.prepare(tensors)["log_prob"], wanted)


@pytest.mark.parametrize("continuous", [False, True])
def test_the_first_minibatch_of_a_rollout_has_ratio_one(continuous: bool) -> None:
    ppo = algorithm(continuous)
    buffer = RolloutBuffer(8, 4, minibatches=2)
    buffer.add(acted(ppo, rollout(continuous)))
    _, out = ppo.loss(next(buffer.batches(32, ppo.prepare)))
    assert {k: abs(out[k].item()) for k in ("approx_kl", "clip_fraction", "policy_loss")} == pytest.approx(
        {"approx_kl": 0.0, "clip_fraction": 0.0, "policy_loss": 0.0}, abs=1e-6
    )


def test_an_update_makes_good_actions_likelier_and_values_better() -> None:
    ppo = algorithm(False, learning_rate=1e-2, max_grad_norm=10.0)
    obs = torch.randn(64, 3)
    action = torch.randint(0, 4, (64,))
    old, _ = ppo.policy.evaluate(ppo.policy.net(obs), action)
    batch = {
        "obs": obs, "action": action, "log_prob": old.detach(), "value": torch.zeros(64),
        "advantage": (action == 2).float(), "return": torch.full((64,), 3.0),
    }  # fmt: skip
    before = ppo.policy.net(obs).softmax(-1)[:, 2].mean().item()
    errors = [ppo.update(batch)["value_loss"].item() for _ in range(20)]
    after = ppo.policy.net(obs).softmax(-1)[:, 2].mean().item()
    assert after > before + 0.02, (before, after)
    assert errors[-1] < errors[0] / 2, errors


def test_values_of_successors_are_taken_from_the_next_row_except_at_cuts_and_at_the_end() -> None:
    ppo = algorithm(False)
    raw = rollout(False)
    raw["next_obs"][:-1] = raw["obs"][1:]
    raw["next_obs"][raw["truncated"]] += 5.0
    tensors = {key: torch.from_numpy(part) for key, part in acted(ppo, raw).items()}
    got = ppo.prepare(tensors)
    with torch.no_grad():
        wanted = ppo.critic(tensors["next_obs"].flatten(0, 1)).view(8, 4)
        value = ppo.critic(tensors["obs"].flatten(0, 1)).view(8, 4)
    assert raw["truncated"].any() and got["next_value"].shape == (8, 4)
    torch.testing.assert_close(got["next_value"], wanted)
    torch.testing.assert_close(got["value"], value)


def test_step_size_and_clip_range_fall_with_progress_only_when_asked() -> None:
    steady = algorithm(False)
    steady.anneal(0.75)
    assert (steady.optim.lr.item(), steady.clip.item()) == pytest.approx((3e-4, 0.2))
    falling = algorithm(False, anneal_lr=True, anneal_clip=True)
    falling.anneal(0.75)
    assert (falling.optim.lr.item(), falling.clip.item()) == pytest.approx((0.75e-4, 0.05))
