"""A field of a config: `setting` writes it with its help and limits, `specs_of` reads it back."""

from __future__ import annotations

import copy
import dataclasses
import functools
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any


def setting(
    default: Any,
    help: str = "",
    *,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    choices: tuple[Any, ...] | None = None,
) -> Any:
    """A field of a config dataclass: its default, one line of help, and what values it takes.

    Limits hold for every element of a tuple. `default` may be `dataclasses.MISSING` (the user must give it) or a dict.
    """
    metadata = {"help": help, "ge": ge, "gt": gt, "le": le, "lt": lt, "choices": choices}
    if isinstance(default, dict):
        return field(default_factory=functools.partial(copy.deepcopy, default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Spec:
    """What a config says about one field."""

    name: str
    hint: Any
    default: Any
    limits: Mapping[str, Any]

    @property
    def help(self) -> str:
        return self.limits.get("help", "")


@functools.cache
def specs_of(cls: type) -> dict[str, Spec]:
    """The fields of a config dataclass in their order, with type hints resolved."""
    hints = typing.get_type_hints(cls)
    specs = {}
    for item in dataclasses.fields(cls):
        default = item.default if item.default_factory is MISSING else item.default_factory()
        specs[item.name] = Spec(item.name, hints[item.name], default, item.metadata)
    return specs
