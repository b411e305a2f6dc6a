"""TQC: which atoms are kept, the loss against a loop, and an actor that climbs all quantiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from sac_family import algorithm, batch, constant_outputs, fixed_log_prob

from rl_training import TQC
from rl_training.errors import ConfigError


def check_kept(change: Callable[[Any], None]) -> None:
    """Atoms {1, 2, 3} and {10, 11, 12}: without the largest two of all, 1, 2, 3 and 10 are left. alpha = 0.5, log pi = -1."""
    tqc = algorithm("tqc", members=2, quantiles=3, drop=1, alpha=0.5)
    change(tqc)
    constant_outputs(tqc.target.net, [[3.0, 1.0, 2.0], [11.0, 10.0, 12.0]])
    with fixed_log_prob(tqc.policy, -1.0):
        kept = tqc.next_value(batch(4)["next_obs"])
    torch.testing.assert_close(kept, torch.tensor([1.5, 2.5, 3.5, 10.5]).expand(4, 4))


def test_the_largest_atoms_of_the_pool_are_dropped() -> None:
    check_kept(lambda tqc: None)

    def smallest_dropped(tqc: Any) -> None:
        def next_value(obs: Any) -> Any:
            action, log_prob = tqc.policy.sample(obs)
            atoms = tqc.target(obs, action).movedim(0, 1).flatten(1).sort(-1).values
            return atoms[:, 2:] - tqc.log_alpha.exp() * log_prob[:, None]

        tqc.next_value = next_value

    def dropped_in_each_net(tqc: Any) -> None:
        def next_value(obs: Any) -> Any:
            action, log_prob = tqc.policy.sample(obs)
            atoms = tqc.target(obs, action).sort(-1).values[..., :2].movedim(0, 1).flatten(1).sort(-1).values
            return atoms - tqc.log_alpha.exp() * log_prob[:, None]

        tqc.next_value = next_value

    for broken in (smallest_dropped, dropped_in_each_net):
        with pytest.raises(AssertionError):
            check_kept(broken)


@pytest.mark.parametrize(("members", "drop", "kept"), [(2, 2, 46), (5, 2, 115), (1, 0, 25)])
def test_so_many_atoms_are_kept(members: int, drop: int, kept: int) -> None:
    tqc = algorithm("tqc", members=members, drop=drop)
    assert tqc.next_value(batch()["next_obs"]).shape == (16, kept)


def test_the_loss_is_the_mean_over_every_pair() -> None:
    tqc = algorithm("tqc", members=2, quantiles=4, drop=1)
    data = batch(3)
    torch.manual_seed(1)
    loss, out = tqc.critic_loss(data)
    torch.manual_seed(1)
    with torch.no_grad():
        kept = tqc.next_value(data["next_obs"])
        theta = tqc.critic(data["obs"], data["action"])
    total, count = 0.0, 0
    for b in range(3):
        for i in range(2):
            for k in range(4):
                for j in range(6):
                    error = float(data["reward"][b] + data["discount"][b] * kept[b, j] - theta[i, b, k])
                    huber = 0.5 * error**2 if abs(error) <= 1 else abs(error) - 0.5
                    total += abs((k + 0.5) / 4 - (error < 0)) * huber
                    count += 1
    assert loss.item() == pytest.approx(total / count, rel=1e-5)
    assert out["td"].shape == (3,)


def test_the_actor_climbs_the_mean_of_all_quantiles() -> None:
    tqc = algorithm("tqc", members=2, quantiles=3, drop=1)
    constant_outputs(tqc.critic, [[1.0, 2.0, 3.0], [10.0, 11.0, 12.0]])
    data = batch(4)
    torch.testing.assert_close(tqc.actor_value(data["obs"], data["action"]), torch.full((4,), 6.5))


def test_the_quantiles_of_known_returns_are_found() -> None:
    """Episodes of one step whose reward is one of four numbers: the critics' quantiles become these."""
    torch.manual_seed(0)
    tqc = algorithm("tqc", quantiles=4, drop=0, learning_rate=0.01, hidden=(32, 32))
    for n in range(400):
        data = batch(256, seed=n) | {"obs": torch.ones(256, 3), "action": torch.zeros(256, 1), "discount": torch.zeros(256)}
        data["reward"] = torch.randint(0, 4, (256,)).float() * 10
        tqc.critic_optim.minimize("critic_loss", data)
    quantiles = tqc.critic(torch.ones(1, 3), torch.zeros(1, 1))[:, 0].sort(-1).values
    torch.testing.assert_close(quantiles, torch.tensor([0.0, 10.0, 20.0, 30.0]).expand(2, 4), atol=1.0, rtol=0)


def test_dropping_every_atom_is_refused() -> None:
    with pytest.raises(ConfigError, match="drop = 25 leaves none"):
        TQC("Pendulum-v1", drop=25)
