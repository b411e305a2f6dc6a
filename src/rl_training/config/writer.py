"""A config as plain data: to_dict, dump_yaml (reads back to an equal config), diff."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import yaml

from rl_training.config.scalars import FLOAT
from rl_training.config.schema import TrainConfig


def to_dict(config: TrainConfig) -> dict[str, Any]:
    """Every setting as nested dicts, lists, text, numbers, true/false and None."""
    return {item.name: _plain(getattr(config, item.name)) for item in dataclasses.fields(config)}


def dump_yaml(config: TrainConfig) -> str:
    """Every setting as YAML; `load_config` of it gives an equal config."""
    return yaml.dump(to_dict(config), Dumper=_Dumper, sort_keys=False, width=10_000)


def diff(old: TrainConfig, new: TrainConfig) -> list[tuple[str, Any, Any]]:
    """The settings that differ, as (dotted name, old, new); None stands for a setting that only one of them has."""
    before, after = flat(old), flat(new)
    keys = dict.fromkeys([*before, *after])
    return [(key, before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)]


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def flat(config: TrainConfig) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if dataclasses.is_dataclass(value):
            flat |= {f"{item.name}.{part.name}": getattr(value, part.name) for part in dataclasses.fields(value)}
        else:
            flat[item.name] = value
    return flat


class _Dumper(yaml.SafeDumper):
    """Lists on one line, no aliases, and quotes around text that our reader or YAML 1.1 would take for a number."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(list, lambda dumper, data: dumper.represent_sequence("tag:yaml.org,2002:seq", data, True))
_NUMBER = re.compile(rf"^(?:{FLOAT.pattern})$")
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+.0123456789inIN"))
