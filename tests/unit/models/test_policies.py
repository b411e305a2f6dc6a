"""What policies choose: greedy and exploring, with the caller's generator only, and the densities that losses read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Categorical, Independent, Normal, kl_divergence

from rl_training.config import ModelConfig
from rl_training.errors import ConfigError
from rl_training.models.policies import (
    CategoricalPolicy,
    DeterministicPolicy,
    EpsilonGreedyPolicy,
    GaussianPolicy,
    Policy,
    SquashedGaussianPolicy,
)
from rl_training.models.q_nets import q_net
from rl_training.specs import ActionSpec, Leaf, ObsSpec

MODEL = ModelConfig(hidden=(8, 8))
OBS = ObsSpec((Leaf("", (3,), "float32"),))
BOX = ActionSpec("continuous", dim=2)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def epsilon_greedy(steps: int = 100) -> EpsilonGreedyPolicy:
    return EpsilonGreedyPolicy(OBS, q_net(OBS, ActionSpec("discrete", (4,)), MODEL), nn.Identity(), MODEL, (1.0, 0.1), steps)


def every_policy(model: ModelConfig = MODEL) -> list[tuple[Policy, tuple[int, ...]]]:
    """Each policy with the shape of its action."""
    return [
        (CategoricalPolicy(OBS, ActionSpec("discrete", (4,)), model), ()),
        (CategoricalPolicy(OBS, ActionSpec("multidiscrete", (4, 2)), model), (2,)),
        (GaussianPolicy(OBS, BOX, model), (2,)),
        (SquashedGaussianPolicy(OBS, BOX, model), (2,)),
        (DeterministicPolicy(OBS, BOX, model, noise=0.1), (2,)),
        (epsilon_greedy(), ()),
    ]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_actions_have_the_canonical_shape_and_type() -> None:
    for policy, shape in every_policy():
        outputs = policy(torch.randn(5, 3)).detach().numpy()
        for explore in (False, True):
            action = policy.choose(outputs, rng(), 0, explore)
            assert action.shape == (5, *shape), type(policy)
            wanted = np.float32 if shape == (2,) and not isinstance(policy, CategoricalPolicy) else np.int64
            assert action.dtype == wanted, (type(policy), explore, action.dtype)


def test_choices_depend_on_the_generator_and_touch_no_other() -> None:
    for policy, _ in every_policy():
        outputs = policy(torch.randn(50, 3)).detach().numpy()
        kept = outputs.copy()
        torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
        first, again, other = (policy.choose(outputs, rng(seed), 0, explore=True) for seed in (1, 1, 2))
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other), type(policy)
        np.testing.assert_array_equal(outputs, kept, err_msg="outputs are the caller's")
        assert torch.equal(torch.get_rng_state(), torch_before)
        np.testing.assert_array_equal(np.random.get_state()[1], numpy_before)
        generator = rng(1)
        state = str(generator.bit_generator.state)
        policy.choose(outputs, generator, 0, explore=False)
        assert str(generator.bit_generator.state) == state, f"{type(policy)}: greedy choices draw nothing"


def test_categorical_choices_follow_the_softmax() -> None:
    policy = CategoricalPolicy(OBS, ActionSpec("discrete", (3,)), MODEL)
    logits = np.tile(np.array([1.0, 2.0, 3.0], np.float32), (60_000, 1))
    share = np.bincount(policy.choose(logits, rng(), 0, explore=True), minlength=3) / 60_000
    assert share == pytest.approx([0.090031, 0.244728, 0.665241], abs=0.006)
    assert (policy.choose(logits, rng(), 0, explore=False) == 2).all()


def test_multidiscrete_choices_are_independent_and_follow_their_own_logits() -> None:
    policy = CategoricalPolicy(OBS, ActionSpec("multidiscrete", (2, 3)), MODEL)
    logits = np.tile(np.array([0.0, np.log(3.0), 5.0, 0.0, 5.0], np.float32), (40_000, 1))
    action = policy.choose(logits, rng(), 0, explore=True)
    assert action[:, 0].mean() == pytest.approx(0.75, abs=0.01)
    assert (action[:, 1] == 1).mean() == pytest.approx(math.exp(-5) / (2 + math.exp(-5)), abs=0.002)
    assert abs(np.corrcoef(action.T)[0, 1]) < 0.02
    assert policy.choose(logits[:1], rng(), 0, explore=False).tolist() == [[1, 0]]


def test_categorical_densities_sum_over_the_parts() -> None:
    single = CategoricalPolicy(OBS, ActionSpec("discrete", (4,)), MODEL)
    logits, action = torch.randn(9, 4), torch.randint(0, 4, (9,))
    log_prob, entropy = single.evaluate(logits, action)
    torch.testing.assert_close(log_prob, Categorical(logits=logits).log_prob(action))
    torch.testing.assert_close(entropy, Categorical(logits=logits).entropy())
    several = CategoricalPolicy(OBS, ActionSpec("multidiscrete", (4, 2)), MODEL)
    logits, actions = torch.randn(9, 6), torch.stack([action, action % 2], -1)
    parts = [Categorical(logits=part) for part in logits.split((4, 2), -1)]
    log_prob, entropy = several.evaluate(logits, actions)
    torch.testing.assert_close(log_prob, parts[0].log_prob(actions[:, 0]) + parts[1].log_prob(actions[:, 1]))
    torch.testing.assert_close(entropy, parts[0].entropy() + parts[1].entropy())


def test_divergences_of_policies_are_those_of_all_that_they_choose() -> None:
    several = CategoricalPolicy(OBS, ActionSpec("multidiscrete", (4, 2)), MODEL)
    old, new = torch.randn(2, 9, 6)
    pairs = zip(old.split((4, 2), -1), new.split((4, 2), -1))
    parts = [kl_divergence(Categorical(logits=p), Categorical(logits=q)) for p, q in pairs]
    torch.testing.assert_close(several.kl(several.distribution(old), several.distribution(new)), parts[0] + parts[1])
    single = CategoricalPolicy(OBS, ActionSpec("discrete", (6,)), MODEL)
    wanted = kl_divergence(Categorical(logits=old), Categorical(logits=new))
    torch.testing.assert_close(single.kl(single.distribution(old), single.distribution(new)), wanted)
    gaussian = GaussianPolicy(OBS, BOX, MODEL)
    before = tuple(part.detach().clone() for part in gaussian.distribution(old[:, :2]))
    gaussian.log_std.data.copy_(torch.tensor([0.5, -0.5]))
    wanted = kl_divergence(Normal(old[:, :2], 1.0), Normal(new[:, :2], torch.tensor([0.5, -0.5]).exp())).sum(-1)
    torch.testing.assert_close(gaussian.kl(before, gaussian.distribution(new[:, :2])), wanted)


def test_a_gaussian_policy_is_unbounded_and_starts_with_the_given_deviation() -> None:
    policy = GaussianPolicy(OBS, BOX, ModelConfig(hidden=(8,), log_std_init=-0.5))
    mean = np.full((30_000, 2), 0.9, np.float32)
    action = policy.choose(mean, rng(), 0, explore=True)
    assert action.std(0) == pytest.approx([math.exp(-0.5)] * 2, rel=0.02)
    assert action.max() > 1.0, "the log-probability is of the action before clipping"
    np.testing.assert_array_equal(policy.choose(mean, rng(), 0, explore=False), mean)
    log_prob, entropy = policy.evaluate(torch.from_numpy(mean), torch.from_numpy(action))
    reference = Independent(Normal(torch.from_numpy(mean), math.exp(-0.5)), 1)
    torch.testing.assert_close(log_prob, reference.log_prob(torch.from_numpy(action)))
    assert entropy.shape == log_prob.shape
    torch.testing.assert_close(entropy, reference.entropy())


def test_the_deviation_of_a_gaussian_policy_is_learned() -> None:
    policy = GaussianPolicy(OBS, BOX, MODEL)
    log_prob, entropy = policy.evaluate(torch.zeros(4, 2), torch.ones(4, 2))
    assert torch.autograd.grad(log_prob.sum() + entropy.sum(), policy.log_std)[0].tolist() == pytest.approx([4.0, 4.0])


def test_a_squashed_policy_stays_inside_and_bounds_its_deviation() -> None:
    policy = SquashedGaussianPolicy(OBS, BOX, MODEL)
    outputs = np.tile(np.array([0.5, -0.5, 50.0, -50.0], np.float32), (20_000, 1))
    action = policy.choose(outputs, rng(), 0, explore=True)
    assert np.abs(action).max() <= 1.0
    u = np.arctanh(action[:, 0].clip(-0.999, 0.999))
    assert np.median(np.abs(u - 0.5)) == pytest.approx(min(3.8, 0.6745 * math.exp(2)), rel=0.2)
    assert action[:, 1] == pytest.approx(np.full(20_000, np.tanh(-0.5)), abs=1e-6), "e^-20 is no noise at all"
    greedy = policy.choose(outputs[:1], rng(), 0, explore=False)
    assert greedy[0].tolist() == pytest.approx(np.tanh([0.5, -0.5]).tolist())
    policy.net[-1].weight.data.zero_()
    policy.net[-1].bias.data.copy_(torch.tensor([0.0, 0.0, 50.0, -50.0]))
    sampled, log_prob = policy.sample(torch.randn(6, 3))
    assert sampled.shape == (6, 2) and log_prob.shape == (6,)
    assert torch.isfinite(log_prob).all(), log_prob


def test_exploring_and_losses_sample_the_same_distribution() -> None:
    policy = SquashedGaussianPolicy(OBS, BOX, MODEL)
    obs = torch.randn(1, 3).expand(40_000, 3)
    with torch.no_grad():
        in_losses = policy.sample(obs)[0].numpy()
        outputs = policy(obs).numpy()
    acting = policy.choose(outputs, rng(), 0, explore=True)
    assert acting.mean(0) == pytest.approx(in_losses.mean(0), abs=0.015)
    assert acting.std(0) == pytest.approx(in_losses.std(0), rel=0.02)


def test_a_deterministic_policy_adds_clipped_noise_only_while_exploring() -> None:
    policy = DeterministicPolicy(OBS, BOX, MODEL, noise=0.1)
    outputs = np.tile(np.array([0.0, 0.99], np.float32), (20_000, 1))
    action = policy.choose(outputs, rng(), 0, explore=True)
    assert action[:, 0].std() == pytest.approx(0.1, rel=0.03)
    assert action.max() == 1.0
    np.testing.assert_array_equal(policy.choose(outputs, rng(), 0, explore=False), outputs)
    with torch.no_grad():
        assert policy(torch.randn(100, 3) * 100).abs().max() <= 1.0


def test_epsilon_falls_linearly_and_then_stays() -> None:
    policy = epsilon_greedy(steps=100)
    assert [policy.epsilon(step) for step in (0, 50, 100, 10_000)] == pytest.approx([1.0, 0.55, 0.1, 0.1])
    values = np.tile(np.array([0.0, 0.0, 9.0, 0.0], np.float32), (40_000, 1))
    for step in (0, 50, 1_000):
        share = (policy.choose(values, rng(), step, explore=True) == 2).mean()
        epsilon = policy.epsilon(step)
        assert share == pytest.approx(1 - epsilon + epsilon / 4, abs=0.01), f"step {step}"
    assert (policy.choose(values, rng(), 0, explore=False) == 2).all()
    assert epsilon_greedy(steps=0).epsilon(1) == pytest.approx(0.1)


def test_on_policy_actors_start_nearly_uniform() -> None:
    obs = torch.randn(100, 3)
    with torch.no_grad():
        for policy in (CategoricalPolicy(OBS, ActionSpec("discrete", (4,)), MODEL), GaussianPolicy(OBS, BOX, MODEL)):
            outputs = policy(obs)
            assert outputs.abs().max().item() < 0.1, type(policy)
            assert outputs.abs().max().item() > 0.0


def test_observations_are_normalized_before_the_network() -> None:
    model = ModelConfig(hidden=(8, 8), normalize_obs=True)
    for policy, _ in every_policy(model)[:5]:
        assert policy.normalizer is not None
        rows = torch.randn(500, 3) * 20 + 7
        policy.normalizer.observe(rows)
        with torch.no_grad():
            torch.testing.assert_close(policy(rows), policy.net(policy.normalizer(rows)))
            assert policy.normalize(rows).std().item() == pytest.approx(1.0, abs=0.05)
        assert any("normalizer" in name for name in policy.state_dict()), "statistics are saved with the policy"


def test_without_normalization_observations_pass_as_they_are() -> None:
    for policy, _ in every_policy():
        obs = torch.randn(4, 3)
        assert policy.normalizer is None and policy.normalize(obs) is obs


def test_images_and_dicts_are_not_normalized() -> None:
    model = ModelConfig(hidden=(8,))
    asked = ModelConfig(hidden=(8,), normalize_obs=True)
    image = ObsSpec((Leaf("", (2, 12, 12), "uint8"),))
    mixed = ObsSpec((Leaf("camera", (2, 12, 12), "uint8"), Leaf("v", (3,), "float32")))
    pixels = torch.randint(0, 256, (5, 2, 12, 12), dtype=torch.uint8)
    inputs: list[tuple[ObsSpec, Any]] = [(image, pixels), (mixed, {"camera": pixels, "v": torch.randn(5, 3)})]
    for spec, obs in inputs:
        policy = CategoricalPolicy(spec, ActionSpec("discrete", (4,)), model)
        assert policy.normalizer is None
        assert policy(obs).shape == (5, 4)
        with pytest.raises(ConfigError, match="normalize_obs scales plain vector observations"):
            CategoricalPolicy(spec, ActionSpec("discrete", (4,)), asked)
