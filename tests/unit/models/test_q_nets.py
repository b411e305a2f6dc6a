"""Networks over discrete actions: shapes in every combination, dueling and noise by hand, the embedding of fractions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn

from rl_training.config import ModelConfig
from rl_training.errors import ConfigError
from rl_training.models.noisy import NoisyLinear, perturbed
from rl_training.models.q_nets import Dueling, ImplicitNet, MeanOfAtoms, MeanOfQuantiles, q_net
from rl_training.specs import ActionSpec, Leaf, ObsSpec

OBS = ObsSpec((Leaf("", (3,), "float32"),))
DISCRETE = ActionSpec("discrete", (4,))


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.mark.parametrize(("dueling", "noisy", "outputs"), list(itertools.product((False, True), (False, True), (1, 5))))
def test_shapes(dueling: bool, noisy: bool, outputs: int) -> None:
    model = ModelConfig(hidden=(8, 6), activation="relu", dueling=dueling, noisy=noisy)
    expected = (7, 4) if outputs == 1 else (7, 4, outputs)
    assert q_net(OBS, DISCRETE, model, outputs)(torch.randn(7, 3)).shape == expected
    implicit = ImplicitNet(OBS, DISCRETE, model, cosines=8, acting=32)
    assert implicit(torch.randn(7, 3)).shape == (7, 4, 32)
    assert implicit(torch.randn(7, 3), torch.rand(7, outputs)).shape == (7, 4, outputs)


def test_dueling_subtracts_the_mean_advantage() -> None:
    net = Dueling(3, 3, ModelConfig(hidden=(8,)))
    for stream, values in ((net.value, [2.0]), (net.advantage, [1.0, 0.0, -4.0])):
        stream[-1].weight.data.zero_()
        stream[-1].bias.data.copy_(torch.tensor(values))
    q = net(torch.randn(1, 3))
    assert q[0].tolist() == pytest.approx([4.0, 3.0, -1.0])
    assert q.mean().item() == pytest.approx(2.0), "the mean over actions is the state's value"


def test_dueling_distributions_subtract_atom_by_atom() -> None:
    net = Dueling(3, 2, ModelConfig(hidden=(8,)), outputs=3)
    last = [layer for layer in net.advantage if isinstance(layer, nn.Linear)][-1]
    for layer, values in ((net.value[-1], [1.0, 2.0, 3.0]), (last, [1.0, 0.0, 0.0, -1.0, 0.0, 4.0])):
        layer.weight.data.zero_()
        layer.bias.data.copy_(torch.tensor(values))
    assert net(torch.randn(1, 3))[0].flatten().tolist() == pytest.approx([2.0, 2.0, 1.0, 0.0, 2.0, 5.0])


@pytest.mark.parametrize("hidden", [(8,), (8, 6), (8, 6, 4)])
@pytest.mark.parametrize("noisy", [False, True])
def test_streams_share_all_but_their_last_hidden_layer(hidden: tuple[int, ...], noisy: bool) -> None:
    _, *trunk, head = q_net(OBS, DISCRETE, ModelConfig(hidden=hidden, dueling=True, noisy=noisy))
    assert [type(layer).__name__ for layer in trunk] == ["Linear", "Tanh"] * (len(hidden) - 1)
    assert [layer.out_features for layer in trunk if isinstance(layer, nn.Linear)] == list(hidden[:-1])
    for stream, outputs in ((head.value, 1), (head.advantage, 4)):
        kind = NoisyLinear if noisy else nn.Linear
        assert [layer.bias.numel() for layer in stream if isinstance(layer, kind)] == [hidden[-1], outputs]


def test_a_head_needs_a_hidden_layer() -> None:
    with pytest.raises(ConfigError, match="hidden"):
        q_net(OBS, DISCRETE, ModelConfig(hidden=(), dueling=True))


def check_factorised(layer: NoisyLinear) -> None:
    """The noise of a weight is a product: rank one, with the moments of f(e) = sgn(e) sqrt|e|."""
    layer.weight_sigma.data.fill_(1.0)
    layer.bias_sigma.data.fill_(1.0)
    weights, biases = [], []
    for _ in range(3000):
        weight, bias = layer.sample()
        weights.append((weight - layer.weight).detach())
        biases.append((bias - layer.bias).detach())
    assert torch.linalg.matrix_rank(weights[0], tol=1e-5) == 1
    assert torch.stack(weights).var().item() == pytest.approx(2 / math.pi, abs=0.03)
    assert torch.stack(biases).var().item() == pytest.approx(math.sqrt(2 / math.pi), abs=0.03)


def test_noise_is_factorised(monkeypatch: pytest.MonkeyPatch) -> None:
    check_factorised(NoisyLinear(5, 4, 0.5))

    def independent(self: NoisyLinear) -> tuple[torch.Tensor, torch.Tensor]:
        noise = torch.randn_like(self.weight), torch.randn_like(self.bias)
        return self.weight + self.weight_sigma * noise[0], self.bias + self.bias_sigma * noise[1]

    monkeypatch.setattr(NoisyLinear, "sample", independent)
    with pytest.raises(AssertionError):
        check_factorised(NoisyLinear(5, 4, 0.5))


def test_noise_starts_as_published() -> None:
    layer = NoisyLinear(16, 4, 0.5)
    assert layer.weight_sigma.unique().tolist() == layer.bias_sigma.unique().tolist() == pytest.approx([0.5 / 4])
    for parameter in (layer.weight, layer.bias):
        assert 0.1 < parameter.abs().max().item() <= 0.25


def test_without_deviations_a_noisy_layer_is_linear() -> None:
    noisy, plain, x = NoisyLinear(5, 4, 0.5), nn.Linear(5, 4), torch.randn(7, 5)
    noisy.weight_sigma.data.zero_()
    noisy.bias_sigma.data.zero_()
    plain.weight.data.copy_(noisy.weight.data)
    plain.bias.data.copy_(noisy.bias.data)
    torch.testing.assert_close(noisy(x), plain(x), rtol=0, atol=0)


def test_every_call_draws_and_holding_keeps() -> None:
    layer, x = NoisyLinear(5, 4, 0.5), torch.randn(1, 5)
    assert not torch.equal(layer(x), layer(x)), "every pass of a loss has noise of its own"
    torch_state = torch.get_rng_state()
    with perturbed([layer], np.random.default_rng(0)):
        first = layer(x)
        assert torch.equal(first, layer(x))
    with perturbed([layer], np.random.default_rng(1)):
        assert not torch.equal(first, layer(x))
    with perturbed([layer], None):
        torch.testing.assert_close(layer(x), nn.functional.linear(x, layer.weight, layer.bias), rtol=0, atol=0)
    assert torch.equal(torch_state, torch.get_rng_state()), "acting leaves the learner's randomness alone"
    assert not torch.equal(layer(x), layer(x)), "nothing is held afterwards"


def test_fractions_are_embedded_by_cosines() -> None:
    net = ImplicitNet(OBS, DISCRETE, ModelConfig(hidden=(8, 6)), cosines=8, acting=4)
    net.embedding = nn.Sequential()
    tau = torch.tensor([[0.5, 0.25]])
    half, quarter = net.embedded(tau)[0]
    assert half.tolist() == pytest.approx([1, 0, -1, 0, 1, 0, -1, 0], abs=1e-6)
    root = math.sqrt(0.5)
    assert quarter.tolist() == pytest.approx([1, root, 0, -root, -1, -root, 0, root], abs=1e-6)
    assert net.middles.tolist() == pytest.approx([0.125, 0.375, 0.625, 0.875])


def test_heads_give_means() -> None:
    atoms = MeanOfAtoms(-1.0, 1.0, 3)
    assert atoms(torch.tensor([[0.25, 0.25, 0.5]]).log()).tolist() == pytest.approx([0.25])
    assert MeanOfQuantiles()(torch.tensor([[1.0, 2.0, 6.0]])).tolist() == [3.0]
