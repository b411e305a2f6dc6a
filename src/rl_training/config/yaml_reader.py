"""Strict, safe YAML: nested dicts plus the place of every key.

The file is only composed into nodes (no constructor of PyYAML runs), so no object can be built from it. Tags are
refused, a key may stand once, and size, depth and the expansion of aliases are limited.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from rl_training.config.scalars import clean, parse_scalar, show
from rl_training.errors import ConfigError, did_you_mean

MAX_BYTES = 1 << 20
MAX_DEPTH = 20
MAX_NODES = 20_000
_TOO_MANY = f"more than {MAX_NODES:,} values, counting those of aliases"


@dataclass
class Document:
    """One file: its values, `positions[path of keys]` as file:line:column, and what was wrong with it."""

    values: dict[str, Any] = field(default_factory=dict)
    positions: dict[tuple[str, ...], str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def read_yaml(path: Path) -> Document:
    """Read a configuration file; a file that is no usable YAML raises ConfigError with the place."""
    return _Reader(str(path)).read(_text_of(path))


def _text_of(path: Path) -> str:
    if not path.exists():
        near = did_you_mean(path.name, [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else [])
        raise ConfigError(f"{path} does not exist.", fix=near)
    if not path.is_file():
        raise ConfigError(f"{path} is not a file.")
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path} is larger than 1 MiB; a configuration is at most that.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text (byte {error.start}).") from error


class _Loader(yaml.SafeLoader):
    """Composes nodes only; refuses tags and deep nesting before PyYAML recurses into them."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  words are interpreted by parse_scalar, not by PyYAML
    depth = 0
    composed = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()
        if getattr(event, "tag", None) is not None:
            raise yaml.MarkedYAMLError(problem="tags (!...) are not allowed", problem_mark=event.start_mark)
        self.depth += 1
        self.composed += 1
        if self.depth > MAX_DEPTH or self.composed > MAX_NODES:
            problem = "nested too deeply" if self.depth > MAX_DEPTH else _TOO_MANY
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


class _Reader:
    def __init__(self, name: str) -> None:
        self.name = name
        self.document = Document()
        self.visited = 0

    def read(self, text: str) -> Document:
        try:
            loader = _Loader(text)
            node = loader.get_single_node()
        except yaml.MarkedYAMLError as error:
            place = self.place(error.problem_mark) if error.problem_mark else self.name
            raise ConfigError(f"{place} is not usable YAML: {error.problem or error.context}") from error
        except yaml.YAMLError as error:
            raise ConfigError(f"{self.name} is not usable YAML: {str(error).splitlines()[0]}") from error
        if node is None:
            return self.document
        values = self.value(node, (), 0)
        if not isinstance(values, dict):
            raise ConfigError(f"{self.place(node.start_mark)} expected settings, one `key: value` per line.")
        self.document.values = values
        return self.document

    def place(self, mark: yaml.Mark) -> str:
        return f"{self.name}:{mark.line + 1}:{mark.column + 1}"

    def value(self, node: yaml.Node, path: tuple[str, ...], depth: int) -> Any:
        self.visited += 1
        if self.visited > MAX_NODES or depth > MAX_DEPTH:  # an alias is a node that is met again, so it counts again
            problem = "an alias contains itself" if depth > MAX_DEPTH else _TOO_MANY
            raise ConfigError(f"{self.place(node.start_mark)} is not usable YAML: {problem}")
        if isinstance(node, yaml.ScalarNode):
            return parse_scalar(node.value) if node.style is None else node.value
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, str(i)), depth + 1) for i, item in enumerate(node.value)]
        return self.mapping(node, path, depth)

    def mapping(self, node: yaml.Node, path: tuple[str, ...], depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            place = self.place(key_node.start_mark)
            key = self.value(key_node, path, depth + 1)
            if not isinstance(key, str):
                self.document.problems.append(f"{place} key {show(key)} is not text")
                continue
            where = (*path, key)
            if key in values:
                self.document.problems.append(
                    f"{place} key '{clean(key)}' stands twice (first at {self.document.positions[where]})"
                )
                continue
            self.document.positions[where] = place
            values[key] = self.value(value_node, where, depth + 1)
        return values
