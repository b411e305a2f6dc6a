"""DroQ: where dropout and layer norm are, and that targets have their own dropout."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sac_family import algorithm, batch
from torch import nn

from rl_training import DroQ
from rl_training.errors import ConfigError


def check_order(body: nn.Sequential) -> None:
    """What reaches an activation is normalized: dropout after the normalization would leave its marks."""
    assert [type(layer).__name__ for layer in body[:4]].count("EnsembleLayerNorm") == 1
    x = torch.randn(2, 64, 4)
    for layer in body:
        if isinstance(layer, nn.ReLU):
            break
        x = layer(x)
    torch.testing.assert_close(x.mean(-1), torch.zeros(2, 64), atol=1e-5, rtol=0)
    torch.testing.assert_close(x.var(-1, correction=0), torch.ones(2, 64), atol=1e-2, rtol=0)


def test_dropout_comes_before_the_normalization() -> None:
    torch.manual_seed(0)
    droq = algorithm("droq", hidden=(64, 64), dropout=0.5)
    check_order(droq.critic.body)
    names = [type(layer).__name__ for layer in droq.critic.body]
    block = ["EnsembleLinear", "Dropout", "EnsembleLayerNorm", "ReLU"]
    assert names == [*block, *block, "EnsembleLinear"]
    swapped = nn.Sequential(*[droq.critic.body[i] for i in (0, 2, 1, 3)])
    with pytest.raises(AssertionError):
        check_order(swapped)


def check_target_dropout(droq: Any) -> None:
    data = batch()
    for critic in (droq.critic, droq.target):
        torch.manual_seed(0)
        first, second = critic(data["obs"], data["action"]), critic(data["obs"], data["action"])
        assert not torch.equal(first, second)
        torch.manual_seed(0)
        assert torch.equal(critic(data["obs"], data["action"]), first), "masks come from torch's generator"


def test_critics_and_targets_drop_out_and_the_actor_does_not() -> None:
    droq = algorithm("droq", dropout=0.3)
    check_target_dropout(droq)
    assert {type(layer).__name__ for layer in droq.policy.net} == {"Identity", "Linear", "ReLU"}
    for layer in droq.target.net.body:
        if type(layer).__name__ == "Dropout":
            layer.p = 0.0  # what eval() does to a target network
    with pytest.raises(AssertionError):
        check_target_dropout(droq)


def test_without_dropout_two_passes_agree() -> None:
    droq = algorithm("droq", dropout=0.0)
    data = batch()
    assert torch.equal(droq.critic(data["obs"], data["action"]), droq.critic(data["obs"], data["action"]))
    assert "Dropout" not in {type(layer).__name__ for layer in droq.critic.body}


def test_the_target_is_the_smaller_of_two_and_the_actor_climbs_their_mean() -> None:
    droq = algorithm("droq", dropout=0.0)
    data = batch()
    q = droq.target(data["obs"], data["action"])
    torch.testing.assert_close(droq.pessimistic(data["obs"], data["action"]), q.min(0).values)
    torch.testing.assert_close(droq.actor_value(data["obs"], data["action"]), q.mean(0))


def test_blocks_that_would_be_ignored_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"droq makes no use of model.block"):
        DroQ("Pendulum-v1", block="residual")
