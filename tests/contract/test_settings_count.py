"""Every setting of an algorithm and of its networks changes what is learned, or is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from combinations import OPTIONS
from test_registry import PAIRS
from tiny import Maker

from rl_training.algorithms import REGISTRY, find
from rl_training.algorithms.replay import ReplayConfig
from rl_training.config.fields import Spec
from rl_training.config.names import settings_of
from rl_training.errors import ConfigError

STEPS = 160
# Values that matter within so few steps, where half or twice the usual one does not.
TRIED: dict[str, Any] = {
    "buffer_size": 70, "hidden": (8, 8), "critic_hidden": (8, 8), "encoder": "nature", "max_grad_norm": 1e-3,
    "target_entropy": 0.3, "target_kl": 1e-6, "top": 1, "noise": 3.0, "max_weight": 0.5, "cg_steps": 1, "backtrack_steps": 1,
    "gumbel_clip": 0.05, "actor_learning_rate": 2e-3, "gap_min": 20.0, "gap_max": 0.01,
    "gap_target": 0.5,
    "vae_hidden": (8, 8), "warm_start": 100, "threshold": 1.0, "epsilon": 0.9,
    "return_scale": 3.0,
    "norm_rate": 0.1,
}  # fmt: skip
# Steps large enough and limits narrow or wide enough to be felt, and distributions small enough to be quick.
BASE: dict[str, Any] = {
    "learning_rate": 1e-2, "clip": 0.02, "target_kl": 1.0, "num_steps": 8,
    "atoms": 11, "quantiles": 8, "samples": 8, "target_samples": 8, "choice_samples": 8,
}  # fmt: skip
ELSEWHERE = {option.setting for option in OPTIONS.values()}  # test_combinations tries these, on tasks that they are for
ELSEWHERE |= {"target_return"}  # the unit tests of the decision transformer: what it asks for in acting teaches it nothing
# TRPO: a bound so wide, on rollouts so short, that some step is refused at first. ARS: rollouts that hold whole episodes.
# CQL: the usual number of samples, as discrete actions have none. AWR: batches so small that mean actions stray out of bounds.
BASE_OWN: dict[str, dict[str, Any]] = {
    "trpo": {"target_kl": 2.0, "num_steps": 2}, "ars": {"num_steps": 20}, "cql": {"samples": 10}, "awr": {"batch_size": 2},
}  # fmt: skip


def another(name: str, spec: Spec, value: Any) -> Any:
    """A value that a setting does not have."""
    if name in TRIED:
        return TRIED[name]
    if choices := spec.limits.get("choices"):
        return next(choice for choice in choices if choice != value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value // 2 if value > 1 else 2
    assert isinstance(value, float), f"{name} = {value}: add a value to TRIED"
    return value / 2 if value else 0.25


def parameters(agent: Any) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in agent.learn().parts.algorithm.named_parameters()}


def differ(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() != b.keys() or any(a[k].shape != b[k].shape or not torch.equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize(("name", "actions"), PAIRS)
def test_every_setting_counts(name: str, actions: str, make: Maker) -> None:
    own = {key: spec for key, spec in settings_of(name).items() if key.startswith(("algorithm.", "model."))}
    settings = {key: spec for key, spec in own.items() if key.rpartition(".")[2] not in ELSEWHERE}
    base = {key: value for key, value in BASE.items() if f"algorithm.{key}" in settings}
    base |= BASE_OWN.get(name, {})
    if REGISTRY[name].offline and issubclass(find(name).config_class, ReplayConfig):
        base |= {"total_steps": STEPS, "offline_updates": 0}  # some settings are about env steps

    def made(**changes: Any) -> Any:
        return make.match(name, actions, steps=STEPS, **base | changes)

    usual = made()
    learned, ignored = parameters(usual), []
    for key, spec in settings.items():
        section, leaf = key.split(".")
        value = another(leaf, spec, getattr(getattr(usual.config, section), leaf))
        try:
            if not differ(learned, parameters(made(**{leaf: value}))):
                ignored.append(f"{leaf} = {value}")
        except ConfigError as refused:
            assert leaf in str(refused), f"{leaf} = {value} is refused without being named: {refused}"
    assert not ignored, f"{name} takes {', '.join(ignored)} and ignores it"


# A setting of something that is off, and what switches it on.
PARTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "priority_beta": ("dqn", {"priority_beta": 0.9}, {"priority": 0.6}),
    "relabel_ratio": ("sac", {"relabel_ratio": 0.2}, {"relabel": "future"}),
    "target_entropy": ("sac", {"target_entropy": 0.3, "learn_alpha": False}, {"learn_alpha": True}),
    "entropy_fraction": ("discrete_sac", {"entropy_fraction": 0.1, "learn_alpha": False}, {"learn_alpha": True}),
    "noisy_sigma": ("dqn", {"noisy_sigma": 2.0}, {"noisy": True}),
}


@pytest.mark.parametrize("setting", PARTS)
def test_a_setting_of_what_is_off_is_refused_and_counts_when_it_is_on(setting: str, make: Maker) -> None:
    name, given, switch = PARTS[setting]
    with pytest.raises(ConfigError, match=rf"{setting} = .* has no effect"):
        make.goals(name, **given)
    usual = parameters(make.goals(name, learning_rate=3e-3, **switch))
    assert differ(usual, parameters(make.goals(name, learning_rate=3e-3, **given | switch)))
