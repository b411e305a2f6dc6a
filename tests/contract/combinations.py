"""Which options combine with which algorithms. The tests try every cell; docs/combinations.md is written from this table.

Algorithms come from the registry, and whether one has an option from its settings: a new one needs no line here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rl_training.algorithms import REGISTRY, find
from rl_training.config.names import settings_of


@dataclass(frozen=True)
class Option:
    """A setting (named without its section) and two of its values: one that leaves the option out and one that has it."""

    setting: str
    off: Any
    on: Any


OPTIONS: dict[str, Option] = {
    "double": Option("double", False, True),
    "dueling": Option("dueling", False, True),
    "noisy": Option("noisy", False, True),
    "n_step": Option("n_step", 1, 3),
    "priority": Option("priority", 0.0, 0.6),
    "relabel": Option("relabel", None, "future"),
    "soft target": Option("tau", 1.0, 0.05),
    "normalize_obs": Option("normalize_obs", False, True),
    "normalize_reward": Option("normalize_reward", False, True),
    "block=residual": Option("block", "plain", "residual"),
    "layer_norm": Option("layer_norm", False, True),
}
# Two options that no algorithm takes together.
EXCLUSIVE = [("relabel", "n_step"), ("relabel", "priority"), ("relabel", "normalize_obs"), ("block=residual", "layer_norm")]
# A dataset is drawn from uniformly, and its goals stay as they are.
NOT_WITH_DATA = ("priority", "relabel")

YES, BY_DEFAULT, REFUSED, NONE = "yes", "by default", "refused", "–"


def default(name: str, setting: str) -> Any:
    """What an algorithm does about a setting that is not given; KeyError where it has no such setting."""
    dotted = {key.rpartition(".")[2]: key for key in settings_of(name)}[setting]
    return find(name).defaults.get(dotted, settings_of(name)[dotted].default)


def outcome(name: str, option: str) -> str:
    """YES: it can be switched on. BY_DEFAULT: it is on. REFUSED: a ConfigError names it. NONE: there is no such setting."""
    wanted = OPTIONS[option]
    try:
        is_on = default(name, wanted.setting) != wanted.off
    except KeyError:
        return NONE
    if wanted.setting in find(name).ignores or (REGISTRY[name].needs_data and option in NOT_WITH_DATA):
        return REFUSED
    return BY_DEFAULT if is_on else YES


def switches(name: str, options: Iterable[str]) -> dict[str, Any]:
    """Settings that have these options, and not those that are on by default and exclude one of them."""
    options = set(options)
    excluded = {b for pair in EXCLUSIVE for a, b in (pair, pair[::-1]) if a in options} - options
    off = {OPTIONS[o].setting: OPTIONS[o].off for o in excluded if COMBINATIONS[name, o] == BY_DEFAULT}
    return {OPTIONS[o].setting: OPTIONS[o].on for o in sorted(options)} | off


COMBINATIONS: dict[tuple[str, str], str] = {(name, option): outcome(name, option) for name in REGISTRY for option in OPTIONS}
