"""Layers to one checked config: defaults < defaults of the algorithm < preset < file < command line or keywords."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl_training.config.convert import convert
from rl_training.config.layers import (
    Entry,
    Layer,
    file_layer,
    find_preset,
    flag_layer,
    is_preset,
    keyword_layer,
    named,
    preset_layer,
    split_flags,
)
from rl_training.config.names import section_class, settings_of
from rl_training.config.schema import SECTIONS, TrainConfig, joined, section_values
from rl_training.config.writer import flat
from rl_training.config.yaml_reader import Document, read_yaml
from rl_training.errors import ConfigError


@dataclass(frozen=True)
class Resolved:
    """A complete config, and where the value of each dotted name came from: "default", "my.yaml:7:3", "--seed", ..."""

    config: TrainConfig
    origin: dict[str, str]


def resolve(layers: Sequence[Layer]) -> Resolved:
    """Merge layers, the last one wins. Every problem of every layer is reported in one ConfigError."""
    found = _algorithm(_last(layers, "algo"))
    settings = settings_of(found.name)
    defaults = {k: Entry(v, f"{found.name} default", f"{found.name} default {k}") for k, v in found.defaults.items()}
    problems = [problem for layer in layers for problem in layer.problems]
    if _last(layers, "env_id") is None:
        problems.append("env_id is missing: name the environment, such as env_id: CartPole-v1")
    values: dict[str, Any] = {}
    origin = dict.fromkeys(settings, "default")
    for layer in (Layer(defaults), *layers):
        for key, entry in layer.entries.items():
            origin[key] = entry.origin
            try:
                values[key] = convert(entry.label, entry.value, settings[key], text=entry.text)
            except ConfigError as error:
                problems.append(str(error))
    if problems:
        raise joined(problems)
    sections = {n: section_class(n, found.name)(**section_values(values, n)) for n in ("algorithm", *SECTIONS)}
    top = {key: value for key, value in values.items() if "." not in key}
    return Resolved(TrainConfig(**top, **sections), origin)


def load_config(path: Path | str, overrides: Mapping[str, Any] | None = None, *, preset: bool = True) -> TrainConfig:
    """The config of a YAML file, over the preset of its environment and under `overrides` (named like keywords).

    `preset=False` takes the file alone: for the complete config of a run, which a changed preset must not alter.
    """
    file = Path(path)
    document = read_yaml(file)
    given = overrides or {}
    algo = given.get("algo") or named(document, "algo")
    env_id = given.get("env_id") or named(document, "env_id")
    algo = _algorithm(algo, f"{file} names no algorithm: add a line such as algo: ppo").name
    layers = [file_layer(document, algo), keyword_layer({**given, "algo": algo} if "algo" in given else given, algo)]
    return resolve([*(_presets(algo, env_id, file) if preset else ()), *layers]).config


def from_keywords(algo: str, **keywords: Any) -> TrainConfig:
    """The config of Python keywords over the defaults of an algorithm.

    `from_keywords("ppo", env_id="CartPole-v1", gamma=0.9, eval_every=5_000)`.
    No preset is applied, so it equals what `TrainConfig` gives for the same values.
    """
    name = _algorithm(algo).name
    return resolve([keyword_layer({"algo": name, **keywords}, name)]).config


def override(config: TrainConfig, **keywords: Any) -> TrainConfig:
    """A complete config with some settings changed, named like keywords: `override(config, seed=1, eval_every=500)`."""
    base = Layer({key: Entry(value, "config", key) for key, value in flat(config).items()})
    return resolve([base, keyword_layer(keywords, config.algo)]).config


def from_command_line(
    algo: str | None, env_id: str | None, flags: Sequence[str] = (), file: Path | None = None
) -> Resolved:
    """The config of a command: positional names, flags such as ["--seed", "3", "--eval-every=500"], a file below them.

    The preset of the algorithm and environment, if there is one, lies below the file.
    """
    document = read_yaml(file) if file else Document()
    pairs = split_flags(flags)
    written = {flag.replace("_", "-"): text for flag, text in pairs}
    algo = written.get("--algo") or algo or named(document, "algo")
    env_id = written.get("--env-id") or env_id or named(document, "env_id")
    algo = _algorithm(algo).name
    positional = {"algo": algo} | ({"env_id": env_id} if env_id is not None else {})
    command = Layer({key: Entry(value, "command line", key) for key, value in positional.items()})
    below = [*_presets(algo, env_id, file)]
    if file:
        below.append(file_layer(document, algo))
        command.entries = {k: e for k, e in command.entries.items() if e.value != document.values.get(k)}
    return resolve([*below, command, flag_layer(pairs, algo)])


def _presets(algo: str, env_id: str | None, file: Path | None) -> list[Layer]:
    """The preset layer, unless the file itself is a preset: presets do not stack."""
    if env_id is None or (file is not None and is_preset(file)):
        return []
    path = find_preset(algo, env_id)
    return [preset_layer(path, algo)] if path else []


def _last(layers: Sequence[Layer], key: str) -> Any:
    entries = [layer.entries[key] for layer in layers if key in layer.entries]
    return entries[-1].value if entries else None


def _algorithm(name: str | None, missing: str = "no algorithm is named: write for example algo: ppo") -> Any:
    from rl_training import algorithms  # imports torch, which `import rl_training.config` must not

    if name is None:
        raise ConfigError(missing, fix=f"Known algorithms: {', '.join(algorithms.names())}.")
    return algorithms.find(name)
