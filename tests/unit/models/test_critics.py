"""State and action values: shapes, and independent ensemble members."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from rl_training.config import ModelConfig
from rl_training.models.critics import DiscreteCritic, EnsembleCritic, ValueNet
from rl_training.models.ensemble import EnsembleLinear
from rl_training.models.mlp import initialize, mlp
from rl_training.specs import ActionSpec, Leaf, ObsSpec

MODEL = ModelConfig(hidden=(8, 6), activation="relu")
OBS = ObsSpec((Leaf("", (3,), "float32"),))
BOX, DISCRETE = ActionSpec("continuous", dim=2), ActionSpec("discrete", (3,))


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def test_shapes() -> None:
    obs, action = torch.randn(5, 3), torch.randn(5, 2)
    assert ValueNet(OBS, MODEL)(obs).shape == (5,), "a column would broadcast against returns to a matrix"
    assert EnsembleCritic(OBS, BOX, MODEL, members=4)(obs, action).shape == (4, 5)
    assert DiscreteCritic(OBS, DISCRETE, MODEL, members=4)(obs).shape == (4, 5, 3)


def test_every_part_of_a_dict_observation_counts() -> None:
    spec = ObsSpec((Leaf("a", (2,), "float32"), Leaf("b", (2, 2), "float32")))
    obs = {"a": torch.randn(5, 2), "b": torch.randn(5, 2, 2)}
    for net, extra in ((ValueNet(spec, MODEL), ()), (EnsembleCritic(spec, BOX, MODEL, members=2), (torch.randn(5, 2),))):
        value = net(obs, *extra)
        for key in obs:
            changed = net(obs | {key: obs[key] + 1}, *extra)
            assert not torch.allclose(changed, value), key


def test_an_ensemble_computes_what_its_members_would_alone() -> None:
    critic = EnsembleCritic(OBS, BOX, MODEL, members=3)
    obs, action = torch.randn(7, 3), torch.randn(7, 2)
    got = critic(obs, action)
    for i in range(3):
        x = torch.cat([obs, action], -1)
        for layer in critic.body:
            x = x @ layer.weight[i] + layer.bias[i] if isinstance(layer, EnsembleLinear) else layer(x)
        torch.testing.assert_close(got[i], x.squeeze(-1))
    assert not torch.allclose(got[0], got[1]), "members start different"


def test_several_actions_of_a_state_are_valued_as_one_by_one() -> None:
    critic = EnsembleCritic(OBS, BOX, MODEL, members=3)
    obs, actions = torch.randn(7, 3), torch.randn(7, 5, 2)
    got = critic.of_many(obs, actions)
    torch.testing.assert_close(got, torch.stack([critic(obs, actions[:, i]) for i in range(5)], -1))
    torch.testing.assert_close(critic.of_many(obs, actions, slice(1)), got[:1])
    own = torch.randn(3, 7, 2)
    torch.testing.assert_close(critic.of_each(obs, own), torch.stack([critic(obs, own[i])[i] for i in range(3)]))


def test_discrete_critics_give_each_row_the_value_of_its_action() -> None:
    critic = DiscreteCritic(OBS, DISCRETE, MODEL, members=2)
    obs, action = torch.randn(7, 3), torch.tensor([0, 2, 1, 1, 0, 2, 2])
    every, got = critic(obs), critic.of_action(obs, action)
    assert [[every[i, b, a].item() for b, a in enumerate(action)] for i in range(2)] == got.tolist()
    assert not torch.allclose(every[0], every[1]), "members start different"


def test_discrete_critics_share_nothing() -> None:
    image = ObsSpec((Leaf("", (36, 36, 1), "uint8"),))
    critic = DiscreteCritic(image, DISCRETE, MODEL, members=2)
    value = critic(torch.randint(0, 255, (2, 36, 36, 1), dtype=torch.uint8))
    gradients = dict(zip(dict(critic.named_parameters()), torch.autograd.grad(value[0].sum(), list(critic.parameters()))))
    assert {name.split(".")[1] for name in gradients if name.startswith("encoders")} == {"0", "1"}
    for name, gradient in gradients.items():
        if name.startswith("encoders"):
            assert bool(gradient.abs().sum() > 0) == name.startswith("encoders.0"), name
        else:
            assert gradient[0].abs().sum() > 0 and gradient[1].abs().sum() == 0, name


def test_a_member_has_no_influence_on_another() -> None:
    critic = EnsembleCritic(OBS, BOX, MODEL, members=2)
    value = critic(torch.randn(4, 3), torch.randn(4, 2))
    for gradient in torch.autograd.grad(value[0].sum(), list(critic.parameters())):
        assert gradient[0].abs().sum() > 0 and gradient[1].abs().sum() == 0


def test_ensemble_members_start_as_single_layers_do() -> None:
    layer = EnsembleLinear(500, 16, 4)
    for parameter in (layer.weight, layer.bias):  # PyTorch's own range for 16 inputs
        assert 0.24 < parameter.abs().max().item() <= 0.25
        assert parameter.std().item() == pytest.approx(0.25 / 3**0.5, rel=0.05)
    orthogonal = initialize(EnsembleLinear(2, 16, 4), "orthogonal", 3.0)
    for weight in orthogonal.weight:
        torch.testing.assert_close(weight.T @ weight, 9.0 * torch.eye(4), atol=1e-5, rtol=0)
    assert orthogonal.bias.abs().sum() == 0
    xavier = initialize(EnsembleLinear(100, 16, 4), "xavier", 3.0)
    assert 0.53 < xavier.weight.abs().max().item() <= (6 / 20) ** 0.5


def test_orthogonal_gains_of_a_network() -> None:
    net = mlp(8, 4, ModelConfig(hidden=(8, 8), activation="tanh"), output_gain=0.01)
    squares = [layer.weight @ layer.weight.T for layer in net if isinstance(layer, nn.Linear)]
    for square, gain in zip(squares, (2.0, 2.0, 1e-4), strict=True):
        torch.testing.assert_close(square, gain * torch.eye(len(square)), atol=1e-6, rtol=1e-4)
    normed = mlp(8, 4, ModelConfig(hidden=(8,), layer_norm=True))
    assert [type(layer).__name__ for layer in normed] == ["Linear", "LayerNorm", "Tanh", "Linear"]
