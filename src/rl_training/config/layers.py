"""Where settings come from: presets, files, flags and keywords, each as a layer of dotted names."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rl_training.config.convert import convert
from rl_training.config.fields import specs_of
from rl_training.config.names import route, settings_of, unknown_key
from rl_training.config.scalars import show
from rl_training.config.schema import SECTIONS, TrainConfig
from rl_training.config.yaml_reader import Document, read_yaml
from rl_training.errors import ConfigError

PRESETS = Path(__file__).parent.parent / "zoo" / "presets"
_NOT_SETTINGS = ("contract",)  # what a preset promises; read by others


@dataclass(frozen=True)
class Entry:
    """A value, where it came from, and what a message calls it. `text`: from the command line, not yet read."""

    value: Any
    origin: str
    label: str
    text: bool = False


@dataclass
class Layer:
    """The settings of one source by dotted name, and what was wrong with the others."""

    entries: dict[str, Entry] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def file_layer(document: Document, algo: str, origin: str = "") -> Layer:
    """The settings of a file. Their origin is file:line:column unless `origin` names one."""
    layer = Layer(problems=list(document.problems))

    def add(path: tuple[str, ...], value: Any) -> None:
        place = document.positions[path]
        _add(layer, path, value, algo, Entry(value, origin or place, f"{place} {path[-1]}"), f"{place} ")

    for key, value in document.values.items():
        if key in SECTIONS or key == "algorithm":
            if value is not None and not isinstance(value, dict):
                place = document.positions[(key,)]
                layer.problems.append(f"{place} {key} = {show(value)} is not a mapping of settings")
                continue
            for leaf, item in (value or {}).items():
                add((key, leaf), item)
        elif key not in _NOT_SETTINGS:
            add((key,), value)
    return layer


def keyword_layer(values: Mapping[str, Any], algo: str) -> Layer:
    """Python keywords: any name that `route` takes, or a whole section as its dataclass or a dict."""
    layer = Layer()
    for name, value in values.items():
        if name in SECTIONS or name == "algorithm":
            if dataclasses.is_dataclass(value) and not isinstance(value, type):
                value = {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
            if not isinstance(value, Mapping):
                layer.problems.append(f"{name} = {show(value)} is not a mapping of settings")
                continue
            for leaf, item in value.items():
                _add(layer, (name, str(leaf)), item, algo, Entry(item, "keyword", f"{name}.{leaf}"), "")
        else:
            _route(layer, name, algo, Entry(value, "keyword", name))
    return layer


def flag_layer(pairs: Sequence[tuple[str, str | None]], algo: str) -> Layer:
    """Command line flags as `split_flags` gives them; a flag without a value switches a true/false setting on."""
    layer = Layer()
    for flag, text in pairs:
        key = _route(layer, flag, algo, Entry(text, flag, flag, text=True))
        if key is not None and text is None:
            if settings_of(algo)[key].hint is bool:
                layer.entries[key] = Entry(True, flag, flag)
            else:
                del layer.entries[key]
                layer.problems.append(f"{flag} needs a value")
    return layer


def split_flags(flags: Sequence[str]) -> list[tuple[str, str | None]]:
    """["--seed", "3", "--checkpoint.every=500", "--layer-norm"] as pairs of flag and value."""
    pairs: list[tuple[str, str | None]] = []
    for word in flags:
        if word.startswith("--"):
            flag, equals, text = word.partition("=")
            pairs.append((flag, text if equals else None))
        elif pairs and pairs[-1][1] is None:
            pairs[-1] = (pairs[-1][0], word)
        else:
            raise ConfigError(f"{show(word)} is not a setting: write --name value")
    return pairs


def find_preset(algo: str, env_id: str) -> Path | None:
    """The preset of this algorithm for this environment, or None. The shortest file name wins."""
    paths = sorted((PRESETS / algo).glob("*.yaml"), key=lambda path: (len(path.stem), path.stem))
    return next((path for path in paths if read_yaml(path).values.get("env_id") == env_id), None)


def is_preset(path: Path) -> bool:
    """Whether a file is one of the presets, also by way of a link."""
    return path.resolve().is_relative_to(PRESETS.resolve())


def preset_layer(path: Path, algo: str) -> Layer:
    """A preset; its settings have the origin "preset algo/name"."""
    return file_layer(read_yaml(path), algo, f"preset {path.parent.name}/{path.stem}")


def named(document: Document, key: str) -> str | None:
    """The text that a file has for a top-level key, or None; anything but text raises ConfigError."""
    if key not in document.values:
        return None
    return str(convert(f"{document.positions[(key,)]} {key}", document.values[key], specs_of(TrainConfig)[key]))


def _add(layer: Layer, path: tuple[str, ...], value: Any, algo: str, entry: Entry, place: str) -> None:
    dotted = ".".join(path)
    if dotted in settings_of(algo) and "." not in path[-1]:
        layer.entries[dotted] = entry
    else:
        layer.problems.append(place + unknown_key(path, algo))


def _route(layer: Layer, name: str, algo: str, entry: Entry) -> str | None:
    try:
        key = route(name, algo)
    except ConfigError as error:
        layer.problems.append(str(error))
        return None
    layer.entries[key] = entry
    return key
