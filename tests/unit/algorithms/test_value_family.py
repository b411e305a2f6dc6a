"""C51, QR-DQN, IQN, Rainbow and DQN's options against numbers computed by hand, closed forms and each other."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from value_family import Fixed, algorithm, batch

from rl_training.algorithms import find
from rl_training.errors import ConfigError
from rl_training.objectives import categorical
from rl_training.objectives.quantile import quantile_huber


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def replaced(rule: Any, online: Any, target: Any) -> Any:
    """The rule with networks that always give these outputs."""
    rule.policy.net, rule.target.net = Fixed(online), Fixed(target)
    return rule


# ---- targets ----


@pytest.mark.parametrize("name", ["dqn", "qr_dqn", "iqn", "c51"])
@pytest.mark.parametrize("double", [False, True])
def test_who_chooses_the_next_action(name: str, double: bool) -> None:
    """Online values prefer action 1, target values action 0; the outputs are the target's either way."""
    rule = algorithm(name, double=double, **({"v_min": 0.0, "v_max": 1.0, "atoms": 3} if name == "c51" else {}))
    low, high = ([-50.0, -50.0, 0.0], [0.0, -50.0, -50.0]) if name == "c51" else ([1.0] * 3, [3.0] * 3)
    online, target = ([high, low], [low, high]) if name == "c51" else ([low, high], [high, low])
    if name == "dqn":
        online, target = [row[0] for row in online], [row[0] for row in target]
    replaced(rule, online, target)
    expected = torch.tensor(target[1 if double else 0])
    assert torch.equal(rule.next_outputs(batch(4)), expected.expand(4, *expected.shape))


def test_c51_puts_a_terminal_reward_where_it_belongs() -> None:
    rule = replaced(algorithm("c51", v_min=-1.0, v_max=1.0, atoms=3), [[0.0] * 3] * 2, [[0.0] * 3] * 2)
    _, out = rule.loss(batch(2, reward=torch.tensor([1.0, 0.5]), discount=0.0))
    # Cross-entropy of (0, 0, 1) and of (0, .5, .5) with the uniform prediction is log 3.
    assert out["td"].tolist() == pytest.approx([math.log(3)] * 2)
    rule = replaced(rule, [[0.0, math.log(2.0), 0.0]] * 2, [[0.0] * 3] * 2)  # predicts (1/4, 1/2, 1/4)
    _, out = rule.loss(batch(3, reward=torch.tensor([1.0, 0.5, 0.5]), discount=torch.tensor([0.0, 0.0, 1.0])))
    mixed = 0.5 * math.log(4) + 0.5 * math.log(2)
    # r = 1/2 moves the uniform target to (0, 1/6 + 1/6, 2/3): atom 0 sends half each to 0 and 1, atom 1 stays, -1 splits.
    bootstrapped = (1 / 6) * math.log(4) + (1 / 6 + 1 / 6) * math.log(2) + (1 / 6 + 1 / 3) * math.log(4)
    assert out["td"].tolist() == pytest.approx([math.log(4), mixed, bootstrapped])
    assert out["q"].item() == pytest.approx(0.0, abs=1e-6)


def check_mass(rule: Any) -> None:
    """A perfect prediction of a certain return leaves no error; a target without mass would look perfect to any prediction."""
    certain = replaced(rule, [[-60.0, -60.0, 0.0]] * 2, [[0.0] * 3] * 2)
    wrong = certain.loss(batch(4, reward=0.0, discount=0.0))[1]["td"]
    assert wrong.min().item() > 10, wrong


def test_mass_on_an_atom_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """r = 0 falls on an atom: a projection by floor and ceiling alone drops it, and such an agent still learns CartPole."""
    check_mass(algorithm("c51", v_min=-1.0, v_max=1.0, atoms=3))

    def lossy(probability: Tensor, value: Tensor, atoms: Tensor) -> Tensor:
        place = (value.clamp(atoms[0], atoms[-1]) - atoms[0]) / (atoms[1] - atoms[0])
        low, high = place.floor(), place.ceil()
        out = torch.zeros_like(probability)
        out.scatter_add_(-1, low.long(), probability * (high - place))
        return out.scatter_add_(-1, high.long(), probability * (place - low))

    monkeypatch.setattr("rl_training.algorithms.c51.project", lossy)
    with pytest.raises(AssertionError):
        check_mass(algorithm("c51", v_min=-1.0, v_max=1.0, atoms=3))


def check_quantiles(name: str) -> None:
    """theta = (0, 1) against y = .5, and against y = (3, -1): .0625 and 1.25, summed over predictions, averaged over targets."""
    rule = algorithm(name, **({"quantiles": 2} if name == "qr_dqn" else {"samples": 2, "target_samples": 2}))
    for target, expected in (([0.5, 0.5], 0.0625), ([3.0, -1.0], 1.25)):
        replaced(rule, [[0.0, 1.0]] * 2, [target] * 2)
        if name == "iqn":
            rule.fractions = lambda batch, count: torch.tensor([[0.25, 0.75]]).expand(len(batch["reward"]), 2)
        loss, out = rule.loss(batch(4, reward=0.0, discount=1.0))
        assert loss.item() == pytest.approx(expected)
        assert out["td"].tolist() == pytest.approx([expected] * 4), "priorities are the loss of each row"


@pytest.mark.parametrize("name", ["qr_dqn", "iqn"])
def test_quantile_losses_by_hand(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_quantiles(name)

    def swapped(prediction: Tensor, target: Tensor, tau: Tensor, kappa: float = 1.0) -> Tensor:
        return quantile_huber(prediction, target, 1 - tau, kappa)

    monkeypatch.setattr(f"rl_training.algorithms.{name}.quantile_huber", swapped)
    with pytest.raises(AssertionError):
        check_quantiles(name)


@pytest.mark.parametrize("name", ["dqn", "c51", "qr_dqn", "iqn", "rainbow"])
def test_weights_scale_the_loss_and_not_the_priorities(name: str) -> None:
    rule = algorithm(name, **({"noisy": False} if name == "rainbow" else {}))
    if name == "iqn":
        rule.fractions = lambda batch, count: ((torch.arange(count) + 0.5) / count).expand(len(batch["reward"]), count)
    loss, out = rule.loss(batch())
    doubled, same = rule.loss(batch(weight=2.0))
    assert doubled.item() == pytest.approx(2 * loss.item(), rel=1e-5)
    torch.testing.assert_close(same["td"], out["td"])


# ---- what is learned ----


def fit(rule: Any, rows: dict[str, Tensor], steps: int, draw: Any = None) -> None:
    for _ in range(steps):
        rule.update(rows if draw is None else rows | draw(), sync=True)


def test_iqn_learns_a_quantile_function() -> None:
    """Rewards uniform in [0, 1], no future: Z(tau) = tau while the loss is sharper than the rewards are spread."""
    rule = algorithm("iqn", hidden=(32, 32), kappa=0.05, samples=16, target_samples=16, cosines=16)
    fit(rule, batch(64, obs=0.5, discount=0.0), 1200, lambda: {"reward": torch.rand(64)})
    tau = torch.linspace(0.1, 0.9, 9)[None]
    found = rule.policy.net(torch.full((1, 4), 0.5), tau)[0]
    assert (found - tau).abs().max().item() < 0.06, found


def test_qr_dqn_learns_the_quantiles_of_what_it_sees() -> None:
    rule = algorithm("qr_dqn", quantiles=4, kappa=0.01, learning_rate=5e-3, adam_eps=1e-8)
    rewards = torch.arange(4.0).repeat(16)
    fit(rule, batch(64, obs=0.5, action=0, discount=0.0, reward=rewards), 1500)
    found = rule.policy.net(torch.full((1, 4), 0.5))[0, 0]
    assert found.tolist() == pytest.approx([0.0, 1.0, 2.0, 3.0], abs=0.15)


@pytest.mark.parametrize("name", ["dqn", "c51", "qr_dqn", "iqn", "rainbow"])
def test_a_reward_for_ever_is_worth_its_discounted_sum(name: str) -> None:
    """One state, reward 1 for ever, always bootstrapped: the value is 1 / (1 - gamma) = 10."""
    settings: dict[str, Any] = {"v_min": 0.0, "v_max": 20.0} if name in ("c51", "rainbow") else {}
    settings |= {"quantiles": 8} if name == "qr_dqn" else {"samples": 8, "target_samples": 8} if name == "iqn" else {}
    rule = algorithm(name, learning_rate=5e-3, adam_eps=1e-4, tau=0.05, target_update_interval=1, train_freq=1, **settings)
    rows = batch(16, obs=0.5, next_obs=0.5, reward=1.0)
    fit(rule, rows, 900)
    value = rule.policy.head(rule.policy.net(rows["obs"])).mean().item()
    assert value == pytest.approx(10.0, abs=0.5)


# ---- options ----


def test_a_soft_target_follows_by_tau() -> None:
    rule = algorithm("dqn", tau=0.005)
    start = rule.target.flat.clone()
    rule.update(batch())
    assert torch.equal(rule.target.flat, start), "only when it is due"
    rule.optim.flat.copy_(start + 1)
    for _ in range(3):
        rule.target.update()
    torch.testing.assert_close(rule.target.flat - start, torch.full_like(start, 1 - 0.995**3), atol=1e-5, rtol=0)


def test_online_and_target_networks_have_noise_of_their_own() -> None:
    rule = algorithm("dqn", noisy=True)
    rows = batch()
    first, second = rule.next_outputs(rows), rule.next_outputs(rows)
    assert not torch.equal(first, second)
    for layer in [*rule.policy.net.modules(), *rule.target.net.modules()]:
        if hasattr(layer, "weight_sigma"):
            layer.weight_sigma.data.zero_()
            layer.bias_sigma.data.zero_()
    assert torch.equal(rule.next_outputs(rows), rule.next_outputs(rows))


def test_noise_is_learned() -> None:
    rule = algorithm("dqn", noisy=True)
    sigma = next(p for name, p in rule.policy.net.named_parameters() if name.endswith("weight_sigma"))
    before = sigma.detach().clone()
    rule.update(batch())
    assert (sigma - before).abs().max() > 0


@pytest.mark.parametrize("name", ["dqn", "rainbow"])
def test_noisy_networks_have_no_epsilon(name: str) -> None:
    agent = find(name)("CartPole-v1", noisy=True)
    assert agent.parts.algorithm.policy.epsilon(0) == agent.parts.algorithm.policy.epsilon(10**9) == 0.0
    with pytest.raises(ConfigError, match="epsilon_final has no meaning with"):
        find(name)("CartPole-v1", noisy=True, epsilon_final=0.1)
    with pytest.raises(ConfigError, match="noisy_sigma"):
        find(name)("CartPole-v1", noisy=False, noisy_sigma=0.1)


def test_rainbow_with_its_parts_off_is_c51() -> None:
    """Uniform sampling, single steps, no noise, no state-value stream, one network: the same loss on the same batch."""
    rainbow = algorithm("rainbow", priority=0.0, n_step=1, double=False, v_min=-5.0, v_max=5.0)
    c51 = algorithm("c51", v_min=-5.0, v_max=5.0)
    mine, theirs = rainbow.policy.net, c51.policy.net
    head = mine[-1]
    silent = [p for name, p in mine.named_parameters() if "sigma" in name] + list(head.value.parameters())
    for parameter in silent:
        parameter.data.zero_()
    # The mean over actions is subtracted, so compare where that does nothing: logits of two actions that add up to zero.
    last = head.advantage[-2]
    for half in (last.weight.data, last.bias.data):
        half[51:] = -half[:51]
    heard = [*mine[1].parameters(), *(p for name, p in head.advantage.named_parameters() if "sigma" not in name)]
    for destination, parameter in zip(theirs.parameters(), heard, strict=True):
        destination.data.copy_(parameter.data)
    for rule in (rainbow, c51):
        rule.target.net.load_state_dict(rule.policy.net.state_dict())
    rows = batch(32)
    (loss, out), (expected, other) = rainbow.loss(rows), c51.loss(rows)
    torch.testing.assert_close(loss, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(out["td"], other["td"], atol=1e-5, rtol=1e-5)


def test_a_support_that_is_upside_down_is_refused() -> None:
    with pytest.raises(ConfigError, match="v_min = 10 is not below"):
        find("c51")("CartPole-v1", v_min=10.0)


def test_the_projection_is_what_c51_uses() -> None:
    """The distribution after one certain step is the projected one: the loss is smallest there, and is its entropy."""
    rule = algorithm("c51", v_min=-1.0, v_max=1.0, atoms=3)
    target = categorical.project(torch.tensor([[0.2, 0.3, 0.5]]), torch.tensor([[-0.4, 0.5, 1.4]]), torch.linspace(-1, 1, 3))
    assert target[0].tolist() == pytest.approx([0.08, 0.27, 0.65])
    replaced(rule, target.log().expand(2, 3), torch.tensor([[0.2, 0.3, 0.5]]).log().expand(2, 3))
    _, out = rule.loss(batch(1, reward=0.5, discount=0.9))
    assert out["td"].item() == pytest.approx(-(target * target.log()).sum().item(), rel=1e-5)
