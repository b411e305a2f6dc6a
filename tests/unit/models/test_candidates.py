"""Acting by the best of many actions, and the model of the data's actions that proposes them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rl_training.config import ModelConfig
from rl_training.models.candidates import CandidatePolicy, Candidates, GaussianActor, Perturbation, PerturbedActor
from rl_training.models.critics import EnsembleCritic
from rl_training.models.vae import ConditionalVAE
from rl_training.specs import ActionSpec, Leaf, ObsSpec

MODEL = ModelConfig(hidden=(16, 16), activation="relu")
OBS, BOX = ObsSpec((Leaf("", (3,), "float32"),)), ActionSpec("continuous", dim=2)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def vae() -> ConditionalVAE:
    return ConditionalVAE(OBS, BOX, MODEL, (16, 16))


def test_latents_are_cut_at_a_half_and_there_are_two_per_action_dimension() -> None:
    drawn = vae().latents(1000, 5)
    assert drawn.shape == (1000, 5, 4) and drawn.abs().max().item() == 0.5
    assert (drawn.abs() == 0.5).float().mean().item() == pytest.approx(0.617, abs=0.02), "normal before: 62% lie beyond"


def test_many_latents_are_decoded_as_one_by_one() -> None:
    model, obs = vae(), torch.randn(7, 3)
    latent = model.latents(7, 5)
    torch.testing.assert_close(model.decode(obs, latent), torch.stack([model.decode(obs, latent[:, i]) for i in range(5)], 1))


def test_the_posterior_has_the_deviation_that_it_says() -> None:
    """A decoder that gives a latent as it is shows how latents are drawn."""
    model = vae()
    for net in (model.posterior, model.decoder):
        for p in net.parameters():
            p.data.zero_()
    model.posterior[-1].bias.data.copy_(torch.tensor([0.3] * 4 + [-1.0] * 4))
    seen = []
    model.decoder.register_forward_pre_hook(lambda module, x: seen.append(x[0][:, 3:]))
    _, mean, log_std = model(torch.randn(4000, 3), torch.randn(4000, 2))
    assert mean[0].tolist() == pytest.approx([0.3] * 4) and log_std[0].tolist() == pytest.approx([-1.0] * 4)
    assert seen[0].mean().item() == pytest.approx(0.3, abs=0.02) and seen[0].std().item() == pytest.approx(np.exp(-1), abs=0.02)


@pytest.mark.parametrize(("log_std", "bounded"), [(-9.0, -4.0), (20.0, 15.0), (1.0, 1.0)])
def test_the_posteriors_deviation_is_bounded(log_std: float, bounded: float) -> None:
    model = vae()
    for p in model.posterior[-1].parameters():
        p.data.zero_()
    model.posterior[-1].bias.data[4:] = log_std
    assert (model(torch.randn(2, 3), torch.randn(2, 2))[2] == bounded).all()


@pytest.mark.parametrize(("output", "nudged"), [(0.0, 0.3), (100.0, 0.35), (-100.0, 0.25)])
def test_a_nudge_is_bounded(output: float, nudged: float) -> None:
    nudge = Perturbation(OBS, BOX, MODEL, size=0.05)
    nudge.body[-1].weight.data.zero_()
    nudge.body[-1].bias.data.fill_(output)
    assert nudge(torch.randn(1, 3), torch.full((1, 2), 0.3))[0].tolist() == pytest.approx([nudged] * 2)
    assert nudge(torch.randn(1, 3), torch.full((1, 2), 0.99)).max().item() <= 1.0


def test_the_gaussian_actor_turns_noise_into_actions() -> None:
    actor = GaussianActor(OBS, BOX, MODEL)
    actor.body[-1].weight.data.zero_()
    actor.body[-1].bias.data.copy_(torch.tensor([0.5, -0.5, 0.0, np.log(2.0)]))
    noise = torch.tensor([[[0.0, 0.0], [1.0, -1.0]]])
    assert actor.before_tanh(torch.randn(1, 3), noise)[0].tolist() == [pytest.approx([0.5, -0.5]), pytest.approx([1.5, -2.5])]
    torch.testing.assert_close(actor(torch.randn(1, 3), noise), actor.before_tanh(torch.randn(1, 3), noise).tanh())


def policy(few: int = 3, count: int = 20) -> CandidatePolicy:
    model = vae()
    actor = PerturbedActor(model, Perturbation(OBS, BOX, MODEL, 0.05))
    net = Candidates(actor, EnsembleCritic(OBS, BOX, MODEL, members=2), model.latents(count))
    return CandidatePolicy(OBS, MODEL, net, few)


def test_the_greedy_action_is_the_candidate_that_the_first_critic_likes_best() -> None:
    p, obs = policy(), torch.randn(6, 3)
    with torch.no_grad():
        outputs = p(obs)
        assert outputs.shape == (6, 20, 3)
        chosen = p.choose(outputs.numpy(), np.random.default_rng(0), 0, explore=False)
        for row in range(6):
            here = obs[row : row + 1].expand(20, 3)
            actions = p.net.actor.perturbation(here, p.net.actor.vae.decode(here, p.net.noise).tanh())
            best = actions[p.net.critic(here, actions)[0].argmax()]
            np.testing.assert_allclose(chosen[row], best.numpy(), atol=1e-6)


def test_exploring_takes_the_best_of_a_few_that_are_drawn_anew() -> None:
    """Of 20 candidates worth 0 .. 19, the best of 3 averages 14.75 and is never 0 or 1."""
    actions = np.arange(20, dtype=np.float32).repeat(2).reshape(1, 20, 2)
    outputs = np.concatenate([actions, actions[..., :1]], -1).repeat(4000, 0)
    p = policy(few=3)
    chosen = p.choose(outputs, np.random.default_rng(0), 0, explore=True)[:, 0]
    assert chosen.mean() == pytest.approx(14.75, abs=0.2) and chosen.min() == 2.0 and chosen.max() == 19.0
    assert (p.choose(outputs, np.random.default_rng(0), 0, explore=False) == 19.0).all()


def test_candidates_stay_the_same_and_are_saved() -> None:
    p, obs = policy(), torch.randn(2, 3)
    other = policy()
    assert torch.equal(p(obs), p(obs)) and not torch.equal(p.net.noise, other.net.noise)
    other.load_state_dict(p.state_dict())
    assert torch.equal(p(obs), other(obs))
