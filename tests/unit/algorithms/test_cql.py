"""CQL: the conservative term by hand, the actions it asks about, its multiplier, and what is left when it weighs nothing."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from sac_family import algorithm, batch, changed_parts, constant_outputs
from torch import Tensor

from rl_training import CQL
from rl_training.algorithms.conservative import Conservative
from rl_training.errors import ConfigError

DATA = {"dataset": "made", "offline_updates": 10}
FREE = (None, None)


def cql(**settings: Any) -> Any:
    return algorithm("cql", **DATA | settings)


class Actions(gym.Env[Any, Any]):
    """Only its spaces are used."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)

    def __init__(self, dim: int) -> None:
        self.action_space = gym.spaces.Box(-1.0, 1.0, (dim,), np.float32)


@pytest.mark.parametrize(("dim", "gap"), [(1, 4.094345), (3, 5.480639), (6, 7.560080)])
@pytest.mark.parametrize("variant", ["h", "rho"])
def test_constant_values_have_the_gap_of_the_densities(dim: int, gap: float, variant: str) -> None:
    """log 3N + d log 2 where the policy is as uniform as the random actions; log (3N + 1) without densities."""
    rule: Any = CQL(lambda: Actions(dim), hidden=(8, 8), variant=variant, **DATA).parts.algorithm
    constant_outputs(rule.critic, [7.0, -2.0])
    uniform = torch.full((30, 5), -dim * math.log(2.0))
    propose = rule.proposals
    rule.proposals = lambda data: (propose(data)[0], uniform)
    data = batch(5) | {"action": torch.zeros(5, dim)}
    expected = gap if variant == "h" else math.log(31)
    assert rule.critic_loss(data)[1]["gap"].item() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("temperature", "soft_maximum"), [(1.0, 2.492503), (2.0, 3.576056)])
def test_the_gap_by_hand(temperature: float, soft_maximum: float) -> None:
    """One action from each source: Q of .5, 1 and 2 with log-densities -log 2, -.2 and .3, and 1.5 for the data's."""
    rule = cql(samples=1, softness=temperature)
    q = torch.tensor([1.5, 0.5, 1.0, 2.0]).reshape(1, 4, 1)
    density = torch.tensor([-math.log(2.0), -0.2, 0.3]).reshape(3, 1)
    pushed = rule.pushed_down(q, density, {})
    assert pushed.flatten().tolist() == pytest.approx([1.193147, 1.2, 1.7], abs=1e-6)
    assert rule.conservative.gap(pushed, q[:, 0]).item() == pytest.approx(soft_maximum - 1.5, abs=1e-5)
    rho = cql(samples=1, variant="rho").pushed_down(q, density, {})
    assert torch.equal(rho, q), "the data's action is one of them"


def test_the_gap_of_discrete_actions_by_hand() -> None:
    q = torch.tensor([[1.0, 2.0, 3.0]])
    assert Conservative(1.0, 1.0, FREE, None).gap(q.T, q[:, 1]).item() == pytest.approx(1.407606, abs=1e-6)


def test_gaps_count_within_their_bounds_alone() -> None:
    term, low = Conservative(2.0, 1.0, (-1.0, 3.0), None), torch.tensor([[-5.0], [0.0], [9.0]], requires_grad=True)
    gap = torch.stack([term.gap(low[i : i + 1], torch.zeros(1)) for i in range(3)]).T
    assert gap.flatten().tolist() == [-1.0, 0.0, 3.0]
    loss, out = term(gap)
    assert (loss.item(), out["gap"].item()) == pytest.approx((2 * 2 / 3, 2 / 3))
    (gradient,) = torch.autograd.grad(loss, low)
    assert gradient.flatten().tolist() == pytest.approx([0.0, 2 / 3, 0.0])


def test_every_critic_pays_in_full_beside_its_squared_error() -> None:
    rule = cql(penalty=3.0)
    constant_outputs(rule.critic, [1.0, -2.0])
    data = batch(4) | {"reward": torch.zeros(4), "discount": torch.zeros(4)}
    loss, out = rule.critic_loss(data)
    assert loss.item() == pytest.approx(1.0 + 4.0 + 3.0 * 2 * out["gap"].item(), rel=1e-5)


def test_the_actions_it_asks_about() -> None:
    """Ten at random, ten of the policy's in the state, ten in the next one: with their densities there, valued here."""
    rule, rows = cql(), 400
    data = batch(rows)

    def means(obs: Tensor) -> Tensor:
        return torch.tensor([0.5 if obs is data["obs"] else -0.5, -3.0]).expand(rows, 2)  # and a deviation of e^-3

    rule.policy.net.forward = means
    actions, density = rule.proposals(data)
    assert actions.shape == (30, rows, 1) and density.shape == (30, rows)
    random, here, after = actions.split(10)
    assert random.abs().max() <= 1 and random.std().item() == pytest.approx(3**-0.5, rel=0.03)
    assert torch.allclose(density[:10], torch.tensor(-math.log(2.0)))
    assert here.mean().item() == pytest.approx(math.tanh(0.5), abs=0.01)
    assert after.mean().item() == pytest.approx(-math.tanh(0.5), abs=0.01)
    assert all(len(part.unique()) > 0.9 * part.numel() for part in (here, after)), "each is drawn on its own"
    u = torch.cat([here, after]).atanh()
    mean = torch.cat([torch.full_like(here, 0.5), torch.full_like(after, -0.5)])
    normal = torch.distributions.Normal(mean, math.exp(-3.0)).log_prob(u) - torch.log(1 - u.tanh() ** 2)
    torch.testing.assert_close(density[10:], normal.squeeze(-1), atol=2e-3, rtol=0)
    assert not density.requires_grad and not actions.requires_grad


def test_one_pass_values_what_single_passes_do() -> None:
    rule = cql(layer_norm=True)
    data, actions = batch(6), torch.rand(5, 6, 1)
    torch.testing.assert_close(
        rule.critic.of_many(data["obs"], actions.movedim(0, 1)), torch.stack([rule.critic(data["obs"], a) for a in actions], -1)
    )


def test_without_a_penalty_it_is_sac_without_the_entropy_to_come() -> None:
    """The same critic step as SAC's with log-densities of 0 in its target, and SAC's own actor and temperature."""
    rule, sac = cql(penalty=0.0, actor_learning_rate=3e-4), algorithm("sac")
    state = {key: value for key, value in rule.state_dict().items() if not key.startswith("conservative")}
    sac.load_state_dict(state)
    data = batch()
    proposed = rule.proposals(data)
    rule.proposals = lambda data: proposed  # draws nothing
    original = sac.policy.sample
    sac.next_value = lambda obs: sac.target(obs, original(obs)[0]).min(0).values
    for one in (rule, sac):
        torch.manual_seed(5)
        one.update(data)
    for key, value in sac.state_dict().items():
        torch.testing.assert_close(rule.state_dict()[key], value, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("backup_entropy", [False, True])
def test_the_target_may_be_that_of_the_best_of_several_actions(backup_entropy: bool) -> None:
    rule = cql(max_target_backup=True, backup_entropy=backup_entropy, samples=4)
    q = torch.tensor([[[1.0, 5.0], [4.0, 2.0], [3.0, 9.0], [0.0, 0.0]], [[9.0, 5.0], [2.0, 9.0], [3.0, -1.0], [0.0, 0.0]]])
    density = torch.arange(8.0).reshape(4, 2)
    rule.target.net.of_many = lambda obs, actions: q.movedim(-1, 1)
    rule.policy.sample_from = lambda outputs: (torch.zeros(4, 2, 1), density)
    # The least of both critics first: 1, 2, 3, 0 and 5, 2, -1, 0. Then the largest: the third, and the first.
    alpha = rule.log_alpha.exp().item()
    expected = [3.0 - alpha * 4.0, 5.0 - alpha * 1.0] if backup_entropy else [3.0, 5.0]
    assert rule.next_value(batch(2)["next_obs"]).tolist() == pytest.approx(expected)


def test_each_loss_moves_its_own_part_alone() -> None:
    for loss, optim, argument, part in (
        ("critic_loss", "critic_optim", batch(), "critic"),
        ("actor_loss", "actor_optim", batch(), "policy"),
        ("cloning_loss", "actor_optim", batch(), "policy"),
        ("multiplier_loss", "multiplier_optim", torch.tensor(3.0), "conservative"),
    ):
        rule = cql(gap_target=1.0)
        assert changed_parts(rule, partial(getattr(rule, optim).minimize, loss, argument)) == {part}


def test_the_penalty_does_not_teach_the_policy() -> None:
    """Densities are constants to the gradient of the critics' loss."""
    rule = cql()
    loss, _ = rule.critic_loss(batch())
    gradients = torch.autograd.grad(loss, list(rule.policy.parameters()), allow_unused=True)
    assert all(gradient is None for gradient in gradients)


@pytest.mark.parametrize(("gap", "grows"), [(2.0, True), (0.5, False)])
def test_a_gap_above_its_target_raises_the_multiplier(gap: float, grows: bool) -> None:
    rule = cql(gap_target=0.8, penalty=5.0)
    assert rule.conservative.multiplier(rule.conservative.log_multiplier).item() == 1.0
    loss = rule.multiplier_loss(torch.tensor(gap))[0]
    assert loss.item() == pytest.approx(-5.0 * (gap - 0.8))
    rule.multiplier_optim.minimize("multiplier_loss", torch.tensor(gap))
    assert (rule.conservative.log_multiplier.item() > 0) is grows


def test_the_multiplier_weighs_the_penalty() -> None:
    term, gap = Conservative(5.0, 1.0, FREE, 0.8), torch.ones(2, 3)
    assert term.log_multiplier is not None
    term.log_multiplier.data.fill_(math.log(0.5))
    assert term(gap)[0].item() == pytest.approx(0.5 * 5.0 * 2)
    term.log_multiplier.data.fill_(99.0)
    assert term(gap)[1]["multiplier"].item() == 1e6


def test_the_actor_clones_at_first() -> None:
    rule = cql(bc_updates=2)
    assert [rule.schedule(n)["clone"] for n in range(4)] == [True, True, False, False]
    rule.log_alpha.data.fill_(-99.0)
    data = batch(8)
    by_hand = -rule.policy.log_prob(data["obs"], data["action"]).mean().item()
    assert rule.cloning_loss(data)[0].item() == pytest.approx(by_hand, rel=1e-5)
    before = rule.actor_optim.flat.clone()
    rule.update(data, clone=True)
    cloned = rule.actor_optim.flat - before
    rule = cql(bc_updates=2)
    rule.log_alpha.data.fill_(-99.0)
    rule.update(data, clone=False)
    assert not torch.equal(cloned, rule.actor_optim.flat - before)


def discrete(**settings: Any) -> Any:
    torch.set_num_threads(1)
    return CQL("CartPole-v1", **{"hidden": (8, 8), "gap_target": None} | DATA | settings).parts.algorithm


def discrete_batch(rows: int = 16, actions: int = 2) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    obs, after = torch.randn(2, rows, 4, generator=generator).unbind()
    return {"obs": obs, "next_obs": after, "action": torch.randint(actions, (rows,), generator=generator),
            "reward": torch.randn(rows, generator=generator), "discount": torch.full((rows,), 0.9),
            "weight": torch.ones(rows)}  # fmt: skip


def test_the_discrete_loss_is_double_dqn_and_the_gap() -> None:
    rule, data = discrete(penalty=0.7), discrete_batch()
    loss, out = rule.loss(data)
    with torch.no_grad():
        q, after, target = rule.policy.net(data["obs"]), rule.policy.net(data["next_obs"]), rule.target(data["next_obs"])
    td, gap = [], []
    for b in range(16):
        best = int(after[b].argmax())
        error = q[b, data["action"][b]] - data["reward"][b] - 0.9 * target[b, best]
        td.append(0.5 * error**2 if error.abs() < 1 else error.abs() - 0.5)
        gap.append(q[b].exp().sum().log() - q[b, data["action"][b]])
    assert loss.item() == pytest.approx(float(sum(td) / 16 + 0.7 * sum(gap) / 16), rel=1e-5)
    assert out["gap"].item() == pytest.approx(float(sum(gap) / 16), rel=1e-5)


def test_the_fixed_point_of_two_discrete_actions() -> None:
    """Squares count half within the Huber loss, so penalty .25 is .5 of a plain square: x = 1 - .5 tanh(x / 2), x = .8083."""
    rule = discrete(hidden=(), penalty=0.25)
    layer: Any = rule.policy.net[-1]
    layer.weight.data.zero_()
    data = {"obs": torch.zeros(2, 4), "next_obs": torch.zeros(2, 4), "action": torch.tensor([0, 1]),
            "reward": torch.tensor([0.0, 1.0]), "discount": torch.zeros(2), "weight": torch.ones(2)}  # fmt: skip
    for _ in range(2_000):
        (gradient,) = torch.autograd.grad(rule.loss(data)[0], layer.bias)
        layer.bias.data -= 0.5 * gradient
    assert layer.bias.tolist() == pytest.approx([0.0958, 0.9042], abs=1e-4)


def test_the_discrete_target_follows_slowly_and_the_multiplier_learns() -> None:
    rule = discrete(gap_target=0.1, tau=0.5)
    assert rule.schedule(0) == {"sync": True}
    moved = changed_parts(rule, partial(rule.update, discrete_batch(), **rule.schedule(0)))
    assert moved == {"policy", "target", "conservative"}
    assert rule.conservative.log_multiplier.item() > 0, "untrained values have a gap of about log 2"


def test_an_action_that_nobody_took_ends_below_those_taken() -> None:
    """T5 of two states: going on promises 5 by a value that no data supports; a penalty ends that, without one it stays."""
    found = {}
    for penalty in (0.0, 0.1):
        rule = discrete(hidden=(), penalty=penalty, gamma=0.99)
        q: Any = torch.nn.Parameter(torch.tensor([[0.0, 0.0], [0.0, 5.0]]))  # of S and M
        rule.policy.net.forward = lambda obs, q=q: q[obs[:, 0].long()]
        frozen = q.detach().clone()
        rule.target.forward = lambda obs, t=frozen: t[obs[:, 0].long()]
        obs, after = (torch.tensor(rows)[:, None].expand(3, 4) for rows in ([0.0, 0.0, 1.0], [0.0, 1.0, 1.0]))
        data = {"obs": obs, "next_obs": after, "action": torch.tensor([0, 1, 0]), "reward": torch.tensor([0.6, 0.0, 0.0]),
                "discount": torch.tensor([0.0, 0.99, 0.0]), "weight": torch.ones(3)}  # fmt: skip
        for _ in range(4_000):
            (gradient,) = torch.autograd.grad(rule.loss(data)[0], q)
            q.data -= 0.05 * gradient
            frozen.lerp_(q.data, 0.05)
        found[penalty] = q.detach()
    assert found[0.0][1].tolist() == pytest.approx([0.0, 5.0], abs=0.01) and found[0.0][0, 1].item() > 4.0
    assert found[0.1][1, 0] > found[0.1][1, 1] and found[0.1][0, 0] > found[0.1][0, 1]


@pytest.mark.parametrize(
    ("settings", "name"), [({"samples": 4}, "samples"), ({"alpha": 0.5}, "alpha"), ({"bc_updates": 3}, "bc_updates")]
)
def test_settings_of_continuous_actions_are_refused_for_discrete_ones(settings: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigError, match=rf"algorithm.{name} = .* has no meaning for discrete actions"):
        discrete(**settings)


def test_and_the_other_way_round() -> None:
    with pytest.raises(ConfigError, match=r"algorithm.epsilon = 0.2 has no meaning for continuous actions"):
        cql(epsilon=0.2)
