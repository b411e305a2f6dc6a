"""Dropout, residual blocks, and what networks refuse."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from rl_training.config import ModelConfig
from rl_training.errors import ConfigError
from rl_training.models.critics import EnsembleCritic
from rl_training.models.mlp import Dropout, mlp
from rl_training.specs import ActionSpec, Leaf, ObsSpec

SIMBA = ModelConfig(hidden=(8, 8), activation="relu", block="residual")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def test_dropout_keeps_the_mean_and_drops_its_share() -> None:
    y = Dropout(0.2)(torch.ones(400, 500))
    assert (y == 0).float().mean().item() == pytest.approx(0.2, abs=0.005)
    assert y.mean().item() == pytest.approx(1.0, abs=0.01)
    torch.testing.assert_close(y[y > 0], torch.full_like(y[y > 0], 1.25))


def test_a_residual_network_by_hand() -> None:
    net = mlp(3, 2, SIMBA)
    x = torch.randn(5, 3)
    h = F.linear(x, net[0].weight, net[0].bias)
    for block in net[1:3]:
        norm, widen, _, narrow = block.layers
        assert widen.weight.shape == (32, 8)
        h = h + F.linear(F.relu(F.linear(F.layer_norm(h, (8,), norm.weight, norm.bias), widen.weight, widen.bias)),
                         narrow.weight, narrow.bias)  # fmt: skip
    h = F.layer_norm(h, (8,), net[3].weight, net[3].bias)
    torch.testing.assert_close(net(x), F.linear(h, net[4].weight, net[4].bias))
    assert len(net) == 5


def test_a_residual_network_without_layers_is_linear() -> None:
    assert [type(layer) for layer in mlp(3, 2, SIMBA, hidden=())] == [nn.Linear]


@pytest.mark.parametrize("model", [SIMBA, ModelConfig(hidden=(8, 8), layer_norm=True)])
def test_members_with_normalization_are_independent(model: ModelConfig) -> None:
    critic = EnsembleCritic(ObsSpec((Leaf("", (3,), "float32"),)), ActionSpec("continuous", dim=2), model, members=3)
    obs, action = torch.randn(4, 3), torch.randn(4, 2)
    value = critic(obs, action)
    for gradient in torch.autograd.grad(value[0].sum(), list(critic.parameters()), retain_graph=True):
        assert gradient[0].abs().sum() > 0 and gradient[1:].abs().sum() == 0
    torch.testing.assert_close(critic.first(obs, action), value[0])
    torch.testing.assert_close(critic.of(obs, action, torch.tensor([2, 1])), value[[2, 1]])


def test_residual_blocks_have_one_width_and_their_own_normalization() -> None:
    with pytest.raises(ConfigError, match="all have one width") as refused:
        mlp(3, 2, ModelConfig(hidden=(8, 16), block="residual"))
    assert "--model.hidden 8,8" in str(refused.value)
    with pytest.raises(ConfigError, match="Leave out layer_norm"):
        mlp(3, 2, ModelConfig(hidden=(8, 8), block="residual", layer_norm=True))
