"""ARS by hand: whose return counts, which way a step goes and how far, and what each environment acts with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rl_training.contrib import ARS
from rl_training.data.episode_buffer import EpisodeBuffer, whole_returns
from rl_training.errors import ConfigError
from rl_training.models.noisy import PairedLinear, perturbed


def rollout(rewards: list[float], ends: list[int], fresh: bool = False) -> float:
    reward = np.array(rewards, np.float32)[:, None]
    done = np.isin(np.arange(len(rewards)), ends)[:, None]
    return float(whole_returns(reward, done, np.array([fresh]))[0])


def test_only_whole_episodes_count() -> None:
    ones = [1.0] * 10
    assert rollout(ones, [2, 5, 9]) == 3.5, "3 and 4 steps; the first three end an episode that began before"
    assert rollout(ones, [2, 5]) == 3.0, "what is still running does not count"
    assert rollout(ones, [2]) == 7.0, "unless there is nothing else"
    assert rollout(ones, []) == 10.0
    assert rollout([1.0, 2.0, 3.0, 4.0], [0, 1, 3]) == (2.0 + 7.0) / 2
    assert rollout(ones, [2, 5, 9], fresh=True) == pytest.approx(10 / 3)
    assert rollout(ones, [9], fresh=True) == 10.0, "an episode as long as the rollout is whole"


def test_episodes_as_long_as_rollouts_count_from_the_first_one_on() -> None:
    buffer = EpisodeBuffer(num_steps=4, num_envs=2)
    reward = np.arange(8, dtype=np.float32).reshape(4, 2)
    done = np.zeros((4, 2), np.bool_)
    done[-1, 0] = True
    for expected in ([12.0, 16.0], [12.0, 16.0]):
        buffer.add({"reward": reward, "terminated": done, "truncated": np.zeros_like(done)})
        (batch,) = buffer.batches(8, lambda rollout: rollout)
        assert batch["episode_return"].tolist() == expected
    assert buffer.fresh.tolist() == [True, False]


def rule(**settings: Any) -> Any:
    torch.manual_seed(0)
    return ARS("Pendulum-v1", num_envs=6, normalize_obs=False, **settings).parts.algorithm


def layer(algorithm: Any) -> PairedLinear:
    return next(m for m in algorithm.policy.modules() if isinstance(m, PairedLinear))


@pytest.mark.parametrize("top", [None, 1])
def test_a_step_by_hand(top: int | None) -> None:
    """theta += learning_rate / (top * deviation of the used returns) * sum (r+ - r-) d, over the best directions."""
    ars = rule(learning_rate=0.5, top=top)
    paired = layer(ars)
    weight, bias, d, e = (t.clone() for t in (paired.weight, paired.bias, paired.weight_noise, paired.bias_noise))
    ars.update({"episode_return": torch.tensor([1.0, 5.0, 2.0, 4.0, 0.0, 2.0])})
    difference, used = (torch.tensor([-3.0, 5.0, 0.0]), [1.0, 5.0, 2.0, 4.0, 0.0, 2.0])
    if top == 1:
        difference, used = torch.tensor([0.0, 5.0, 0.0]), [5.0, 0.0]
    scale = 0.5 / ((top or 3) * np.std(used))
    torch.testing.assert_close(paired.weight, weight + scale * (difference[:, None, None] * d).sum(0))
    torch.testing.assert_close(paired.bias, bias + scale * (difference[:, None] * e).sum(0))
    assert not torch.equal(paired.weight_noise, d), "new directions"


def test_pairs_act_forwards_and_backwards() -> None:
    torch.manual_seed(0)
    paired = PairedLinear(3, 2, directions=2, sigma=0.5)
    x = torch.randn(4, 3)
    plain = paired(x)
    torch.testing.assert_close(plain, torch.nn.functional.linear(x, paired.weight, paired.bias))
    with perturbed([paired], np.random.default_rng(0)):
        found, longer = paired(x), paired(torch.cat([x, x[:3]]))
    for row, (sign, direction) in enumerate([(1, 0), (1, 1), (-1, 0), (-1, 1)]):
        weight = paired.weight + sign * 0.5 * paired.weight_noise[direction]
        torch.testing.assert_close(found[row], weight @ x[row] + paired.bias + sign * 0.5 * paired.bias_noise[direction])
    torch.testing.assert_close(longer, torch.cat([found, found[:3]]))
    torch.testing.assert_close(paired(x), plain)


def test_equal_returns_move_nothing() -> None:
    ars = rule()
    before = layer(ars).weight.clone()
    ars.update({"episode_return": torch.full((6,), 7.0)})
    assert torch.equal(layer(ars).weight, before)


def test_mistakes() -> None:
    with pytest.raises(ConfigError, match="must be even"):
        ARS("Pendulum-v1", num_envs=5)
    with pytest.raises(ConfigError, match="top = 3 is more than the 2 directions"):
        ARS("Pendulum-v1", num_envs=4, top=3)
