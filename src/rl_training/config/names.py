"""Every setting of a run by its dotted name, and how short names, flags and misspelt names find theirs."""

from __future__ import annotations

from dataclasses import MISSING
from typing import Any, NamedTuple

from rl_training.config.convert import arms_of
from rl_training.config.fields import Spec, specs_of
from rl_training.config.scalars import clean, show
from rl_training.config.schema import LENGTHS, SECTIONS, TrainConfig
from rl_training.errors import ConfigError, did_you_mean

_PREFIXES = {"eval": "evaluation"}  # eval_every reads better than evaluation_every; both work


def settings_of(algo: str) -> dict[str, Spec]:
    """Dotted name -> field, for a run of `algo`: top level first, then the algorithm, then the other sections."""
    settings = {n: spec for n, spec in specs_of(TrainConfig).items() if n not in SECTIONS and n != "algorithm"}
    for section in ("algorithm", *SECTIONS):
        settings |= {f"{section}.{n}": spec for n, spec in specs_of(section_class(section, algo)).items()}
    return settings


def section_class(section: str, algo: str) -> type:
    """The dataclass of a section; "algorithm" has one per algorithm."""
    from rl_training import algorithms  # imports torch, which `import rl_training.config` must not

    if section == "algorithm":
        found: Any = algorithms.find(algo)
        return found.config_class
    return SECTIONS[section]


def route(name: str, algo: str) -> str:
    """The dotted name of a keyword or flag of `algo`.

    Takes dotted names (`checkpoint.every`), top-level names (`seed`), names of the algorithm (`gamma`), names that only
    one other section has (`num_envs`) and section_field (`env_backend`, `eval_every`); hyphens count as underscores.
    Any other name raises ConfigError.
    """
    settings = settings_of(algo)
    key = name.removeprefix("--").replace("-", "_")
    if key in settings:
        return key
    if f"algorithm.{key}" in settings:
        return f"algorithm.{key}"
    homes = [dotted for dotted in settings if dotted.endswith(f".{key}")]
    if len(homes) == 1:
        return homes[0]
    if homes:
        raise ConfigError(
            f"'{clean(name)}' could be {' or '.join(_like(name, home) for home in homes)}: write one of these."
        )
    for prefix in (*_PREFIXES, "algorithm", *SECTIONS):
        dotted = f"{_PREFIXES.get(prefix, prefix)}.{key[len(prefix) + 1 :]}"
        if key.startswith((f"{prefix}.", f"{prefix}_")) and dotted in settings:
            return dotted
    if key in SECTIONS or key == "algorithm":
        fields = ", ".join(_like(name, dotted) for dotted in settings if dotted.startswith(f"{key}."))
        raise ConfigError(f"'{clean(name)}' is a section. Set one of {fields}.")
    unknown = f"unknown setting '{clean(name)}' for {algo}. {_suggestion(name, key, settings)}".strip()
    raise ConfigError(owners(name, algo) or unknown)


def owners(name: str, algo: str) -> str:
    """A sentence when `name` is a setting of other algorithms, else the empty string."""
    from rl_training import algorithms

    key = name.removeprefix("--").replace("-", "_").removeprefix("algorithm.")
    others = [n for n in algorithms.names() if n != algo and key in specs_of(section_class("algorithm", n))]
    return f"'{clean(name)}' belongs to {', '.join(others)}; {algo} has no such setting" if others else ""


def unknown_key(path: tuple[str, ...], algo: str) -> str:
    """What to say about a key that a file has in a place where no such setting is."""
    section, key = (path[0], path[1]) if len(path) == 2 else ("", path[0])
    allowed = [d.rpartition(".")[2] for d in settings_of(algo) if d.rpartition(".")[0] == section]
    if section in ("", "algorithm") and (sentence := owners(key, algo)) and _home(key, algo) is None:
        return sentence
    where = f" under {section}" + (f" ({algo})" if section == "algorithm" else "") if section else ""
    advice = did_you_mean(key, allowed if section else [*allowed, "algorithm", *SECTIONS])
    if (home := _home(key, algo)) is not None:
        parent = home.rpartition(".")[0]
        advice = f"It belongs under {parent}." if parent else "It belongs at the top level."
    return f"unknown key '{clean(key)}'{where}. {advice or 'Allowed: ' + ', '.join(allowed) + '.'}"


def _home(key: str, algo: str) -> str | None:
    try:
        return route(key, algo)
    except ConfigError:
        return None


def _like(name: str, dotted: str) -> str:
    """A dotted name in the style the user wrote: --flag or keyword."""
    return "--" + dotted.replace("_", "-") if name.startswith("--") else dotted


def _suggestion(name: str, key: str, settings: dict[str, Spec]) -> str:
    bare = [dotted.rpartition(".")[2] for dotted in settings]
    unique = [leaf for leaf in bare if bare.count(leaf) == 1]
    joined = [f"{section}_{leaf}" for section, _, leaf in (dotted.partition(".") for dotted in settings) if leaf]
    guess = did_you_mean(key, [*unique, *settings, *joined], "{}")
    return f"Did you mean {_like(name, guess)}?" if guess else ""


class FieldHelp(NamedTuple):
    """One line of a help page."""

    key: str
    type: str
    default: str
    help: str


def describe_fields(algo: str) -> list[FieldHelp]:
    """Every setting of a run of `algo` with its type, its default for this algorithm, and its help."""
    from rl_training import algorithms

    found: Any = algorithms.find(algo)
    lines = []
    for key, spec in settings_of(algo).items():
        default = found.defaults.get(key, LENGTHS.get(key, spec.default))
        shown = "" if default is MISSING else default if isinstance(default, str) else show(default)
        lines.append(FieldHelp(key, _type_name(spec), shown, spec.help))
    return lines


def _type_name(spec: Spec) -> str:
    names = {int: "int", float: "float", bool: "true/false", str: "text", type(None): "none", Any: "any"}
    choices = spec.limits.get("choices")
    words = []
    for arm in arms_of(spec.hint):
        kind = getattr(arm, "__origin__", arm)
        if choices and kind is type(choices[0]):
            words.append("|".join(str(choice) for choice in choices))
        elif kind is tuple:
            words.append(f"list of {names[arm.__args__[0]]}")
        else:
            words.append("key=value,..." if kind is dict else names[kind])
    return " or ".join(words)
