"""BCQ: targets by the best of supported actions, what each loss moves, and the discrete rule between cloning and DQN."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from sac_family import algorithm, batch, changed_parts, constant_outputs
from torch import Tensor
from torch.nn import functional as F

from rl_training import BCQ, DQN
from rl_training.errors import ConfigError
from rl_training.models.imitation import NEVER, allowed


def bcq(**settings: Any) -> Any:
    return algorithm("bcq", vae_hidden=(16, 16), **settings)


def moved(rule: Any, loss: str) -> set[str]:
    """Parts that a loss changes, by their names in the policy."""
    before = {name: p.detach().clone() for name, p in rule.named_parameters()}
    getattr(rule, f"{loss}_optim").minimize(f"{loss}_loss", batch())
    return {name.split(".body")[0].rsplit(".posterior")[0].rsplit(".decoder")[0] for name, p in rule.named_parameters()
            if not torch.equal(p, before[name])}  # fmt: skip


def test_the_target_softens_the_minimum_before_it_takes_the_best() -> None:
    """Critics (1, 3) for the first action and (2, 2.5) for the second: 1.5 and 2.125; the maximum first would give 2.25."""
    rule = bcq(next_actions=2)
    values = torch.tensor([[1.0, 2.0], [3.0, 2.5]])
    rule.critic_target.net.of_many = lambda obs, action: values[:, None].expand(2, len(action), 2)
    constant_outputs(rule.critic, [0.0, 0.0])
    data = batch(2) | {"reward": torch.ones(2)}
    loss, out = rule.critic_loss(data)
    assert out["td"].tolist() == pytest.approx([1 + 0.9 * 2.125, 1.0])
    assert loss.item() == pytest.approx(2 * ((1 + 0.9 * 2.125) ** 2 + 1) / 2, rel=1e-5), "the sum of both critics' errors"


def test_next_actions_are_decoded_from_cut_latents_and_nudged_by_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    rule, obs = bcq(next_actions=50), batch(8)["next_obs"]
    seen = []
    decode = rule.vae.decode
    monkeypatch.setattr(rule.vae, "decode", lambda o, z: seen.append(z) or decode(o, z))
    rule.actor_target.flat.add_(0.5)  # the target is another network than the one that learns
    actions = rule.next_actions(obs, 8)
    assert seen[0].shape == (8, 50, 2) and seen[0].abs().max().item() == 0.5
    torch.testing.assert_close(actions, rule.actor_target(obs, decode(obs, seen[0]).tanh()))
    assert not torch.allclose(actions, rule.policy.net.actor(obs, seen[0]))


def test_the_nudge_climbs_the_first_critic_from_what_the_model_proposes() -> None:
    rule = bcq(perturbation=0.5, learning_rate=1e-2)
    data = batch(64)
    values = lambda: -rule.actor_loss(data)[0].item()  # noqa: E731
    before = np.mean([values() for _ in range(5)])
    for _ in range(100):
        rule.actor_optim.minimize("actor_loss", data)
    assert np.mean([values() for _ in range(5)]) > before + 0.005
    constant_outputs(rule.critic, [3.0, -2.0])
    assert rule.actor_loss(data)[0].item() == pytest.approx(-3.0)


def test_each_loss_moves_its_own_part_alone() -> None:
    assert moved(bcq(), "vae") == {"policy.net.actor.vae"}
    assert moved(bcq(), "critic") == {"policy.net.critic"}
    assert moved(bcq(), "actor") == {"policy.net.actor.perturbation"}


def test_an_update_moves_both_targets() -> None:
    rule = bcq(tau=0.5)
    before = [target.flat.clone() for target in (rule.critic_target, rule.actor_target)]
    assert changed_parts(rule, partial(rule.update, batch())) == {"policy", "critic_target", "actor_target"}
    for target, old in zip((rule.critic_target, rule.actor_target), before):
        optim, start, end = target._source
        torch.testing.assert_close(target.flat, 0.5 * old + 0.5 * optim.flat[start:end])


def test_the_model_learns_the_datas_actions() -> None:
    rule = bcq(learning_rate=1e-2)
    data = batch(128)
    data |= {"action": (data["obs"][:, :1] > 0).float() - 0.5}
    for _ in range(300):
        rule.vae_optim.minimize("vae_loss", data)
    with torch.no_grad():
        decoded = rule.vae.decode(data["obs"], rule.vae.latents(128)).tanh()
    assert (decoded.sign() == data["action"].sign()).float().mean().item() > 0.95


# --- discrete actions ---


def discrete(**settings: Any) -> Any:
    torch.set_num_threads(1)
    return BCQ("CartPole-v1", **{"hidden": (8, 8)} | settings).parts.algorithm


def rows(count: int = 16) -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(0)
    discount = torch.full((count,), 0.9)
    discount[-1] = 0.0
    return {"obs": torch.randn(count, 4, generator=g), "next_obs": torch.randn(count, 4, generator=g), "discount": discount,
            "action": torch.randint(2, (count,), generator=g), "reward": torch.randn(count, generator=g),
            "weight": torch.ones(count)}  # fmt: skip


def test_actions_need_a_part_of_the_probability_of_the_likeliest() -> None:
    logits = torch.tensor([0.6, 0.15, 0.25]).log() + 2.0
    assert allowed(logits, 0.3).tolist() == [True, False, True]
    assert allowed(logits, 0.0).tolist() == [True, True, True]
    assert allowed(logits, 1.0).tolist() == [True, False, False], "the likeliest itself is never too rare"
    assert allowed(torch.tensor([0.0, -500.0]), 0.0).all()
    exactly = torch.tensor([0.0, np.log(0.5)], dtype=torch.float64)
    assert allowed(exactly, 0.5).tolist() == [True, False], "more than the threshold, not as much"


def test_rare_actions_have_very_low_values() -> None:
    net = discrete().policy.net
    constant(net.values, [5.0, -7.0])
    constant(net.imitation, [0.0, 3.0])
    assert net(torch.randn(3, 4)).tolist() == [[NEVER, -7.0]] * 3


def constant(body: Any, values: list[float]) -> None:
    body[-1].weight.data.zero_()
    body[-1].bias.data.copy_(torch.tensor(values))


def test_the_loss_by_hand() -> None:
    """The online network prefers the likely action 1, which the target network values at 4."""
    rule = discrete()
    net, target = rule.policy.net, rule.target.net
    constant(net.values, [9.0, 0.5])
    constant(net.imitation, [0.0, 2.0])
    constant(target.values, [8.0, 4.0])
    constant(target.imitation, [2.0, 0.0])  # the target's imitation has no say
    data = rows(2) | {"reward": torch.tensor([1.0, 1.0]), "action": torch.tensor([0, 1])}
    loss, out = rule.loss(data)
    errors = [9.0 - (1 + 0.9 * 4), 0.5 - 1.0]
    assert out["td"].tolist() == pytest.approx(errors)
    value = ((errors[0] - 0.5) + 0.5 * errors[1] ** 2) / 2
    norm = np.log(1 + np.exp(2.0))
    imitation = (norm + (norm - 2.0)) / 2
    assert loss.item() == pytest.approx(value + imitation + 0.01 * (0 + 4) / 2, rel=1e-5)


def test_every_action_allowed_it_is_double_dqn() -> None:
    rule, dqn = discrete(threshold=0.0, hidden=(16,)), DQN("CartPole-v1", hidden=(16,), double=True).parts.algorithm
    for p in dqn.target.parameters():
        p.data.uniform_(-1.0, 1.0)
    for mine, theirs in ((rule.policy.net, dqn.policy.net), (rule.target.net, dqn.target.net)):
        for p, q in zip(mine.values.parameters(), theirs.parameters(), strict=True):
            p.data.copy_(q)
    data = rows()
    assert torch.equal(rule.next_value(data["next_obs"]), dqn.next_outputs(data))
    assert not torch.equal(discrete(hidden=(16,)).next_value(data["next_obs"]), dqn.next_outputs(data))


def test_only_the_likeliest_allowed_it_clones() -> None:
    agent = BCQ("CartPole-v1", hidden=(16, 16), threshold=1.0, learning_rate=1e-2)
    rule, data = agent.parts.algorithm, rows(64)
    data |= {"action": (data["obs"][:, 0] > 0).long(), "reward": -1e3 * (data["obs"][:, 0] > 0).float()}
    for _ in range(300):
        rule.update(data)
    with torch.no_grad():
        chosen = rule.policy.choose(rule.policy(data["obs"]).numpy(), np.random.default_rng(0), 0, explore=False)
        logits = rule.policy.net.both(data["obs"])[1]
    assert (chosen == data["action"].numpy()).mean() > 0.95, "what the data do, however little it is worth"
    assert (chosen == logits.argmax(-1).numpy()).all()


def test_an_action_that_nobody_tried_is_not_done_however_high_its_value() -> None:
    torch.manual_seed(0)
    rule = discrete(learning_rate=1e-2)
    rule.policy.net.values[-1].bias.data[1] = 5.0
    data = rows(64) | {"action": torch.zeros(64, dtype=torch.long)}
    for _ in range(100):
        rule.update(data)
    with torch.no_grad():
        q, _ = rule.policy.net.both(data["obs"])
        assert (q[:, 1] > q[:, 0]).float().mean() > 0.9, "a plain maximum would take it"
        assert (rule.policy(data["obs"]).argmax(-1) == 0).all()


def test_imitation_does_not_learn_from_the_values() -> None:
    rule, data = discrete(logit_penalty=0.0), rows()
    loss, _ = rule.loss(data)
    imitation = list(rule.policy.net.imitation.parameters())
    got = torch.autograd.grad(loss, imitation)
    wanted = torch.autograd.grad(F.cross_entropy(rule.policy.net.both(data["obs"])[1], data["action"]), imitation)
    for a, b in zip(got, wanted):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    ("env_id", "setting", "value"),
    [("CartPole-v1", "perturbation", 0.1), ("CartPole-v1", "vae_hidden", (8,)), ("CartPole-v1", "candidates", 50),
     ("CartPole-v1", "pessimism", 1.0), ("CartPole-v1", "next_actions", 4), ("Pendulum-v1", "threshold", 0.5),
     ("Pendulum-v1", "logit_penalty", 0.1), ("Pendulum-v1", "epsilon", 0.5)],
)  # fmt: skip
def test_settings_of_the_other_kind_of_action_are_refused(env_id: str, setting: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"algorithm.{setting} = .* has no effect on"):
        BCQ(env_id, **{setting: value})


def test_it_cannot_explore_by_more_actions_than_there_are() -> None:
    with pytest.raises(ConfigError, match=r"candidates = 5 is fewer than algorithm.next_actions = 10"):
        BCQ("Pendulum-v1", candidates=5)
