"""One validator for YAML, the command line and Python keywords: a value against the type hint and limits of its field.

Values arrive as Python or YAML values, or as text from the command line, which is first read the way its type needs.
"""

from __future__ import annotations

import math
import os
import types
import typing
from collections.abc import Mapping
from typing import Any

from rl_training.config.fields import Spec
from rl_training.config.scalars import LARGEST, clean, parse_scalar, show
from rl_training.errors import ConfigError, did_you_mean

_EXACT = 2**53  # floats above this no longer name one whole number
_MAX_DEPTH = 20
_EXPECTED = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    tuple: "a list",
    dict: "a mapping",
}


def convert(label: str, value: Any, spec: Spec, *, text: bool = False) -> Any:
    """`value` as the type of `spec`, or ConfigError that calls it `label`. `text`: from the command line."""
    return _typed(label, _from_text(label, value, spec.hint) if text else value, spec.hint, spec.limits)


def arms_of(hint: Any) -> list[Any]:
    """The members of a union, None last; any other hint alone."""
    arms = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    return sorted(arms, key=lambda arm: arm is types.NoneType)


def _from_text(label: str, text: str, hint: Any) -> Any:
    arms = arms_of(hint)
    if types.NoneType in arms and text.lower() in ("none", "null"):
        return None
    kind = typing.get_origin(arms[0]) or arms[0]
    if kind is str:
        return text
    if kind is tuple:
        parts = _inside(_inside(text, "[]"), "()").removesuffix(",")
        element = typing.get_args(arms[0])[0]
        return [_from_text(label, part.strip(), element) for part in parts.split(",")] if parts else []
    if kind is dict:
        pairs = [part.partition("=") for part in _inside(text, "{}").split(",") if part]
        if not all(key.strip() and equals for key, equals, _ in pairs):
            raise ConfigError(f"{label} = {show(text)} is not a mapping: write key=value,key=value")
        return {key.strip(): parse_scalar(value.strip()) for key, _, value in pairs}
    return parse_scalar(text.strip())


def _inside(text: str, brackets: str) -> str:
    text = text.strip()
    return text[1:-1].strip() if text.startswith(brackets[0]) and text.endswith(brackets[1]) else text


def _typed(label: str, value: Any, hint: Any, limits: Mapping[str, Any]) -> Any:
    arms = arms_of(hint)
    if value is None and types.NoneType in arms:
        return None
    arms = [arm for arm in arms if arm is not types.NoneType]
    errors = []
    for arm in arms:
        try:
            return _checked(label, _one(label, value, arm, limits), limits, show(value))
        except ConfigError as error:
            errors.append(error)
    # Of the complaints of a union, the one of the member that is nearest to what was written.
    raise next((e for e, arm in zip(errors, arms) if isinstance(value, str) and arm is str), errors[0])


def _one(label: str, value: Any, hint: Any, limits: Mapping[str, Any]) -> Any:
    kind = typing.get_origin(hint) or hint
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()  # a NumPy or torch scalar given in Python
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind is tuple and isinstance(value, list | tuple):
        args = typing.get_args(hint)
        elements = args[:1] * len(value) if args[-1] is Ellipsis else args
        if len(elements) != len(value):
            raise ConfigError(f"{label} = {show(value)} has {len(value)} values; expected {len(elements)}")
        return tuple(_typed(f"{label}[{i}]", item, elements[i], limits) for i, item in enumerate(value))
    if kind is dict and isinstance(value, Mapping):
        return _plain(label, value)
    if kind is bool and isinstance(value, bool):
        return value
    if kind is str and isinstance(value, str | os.PathLike):
        return str(os.fspath(value))
    if kind is float and number:
        return float(_whole(label, value) if isinstance(value, int) else value)
    if kind is int and number:
        return _whole(label, value)
    if kind is Any:
        return _plain(label, value)
    if kind not in _EXPECTED:
        raise TypeError(f"{label}: the type hint {hint} cannot be used in a config")
    raise ConfigError(f"{label} = {show(value)} {_mismatch(value, kind)}")


def _whole(label: str, value: float) -> int:
    if isinstance(value, float) and (not value.is_integer() or abs(value) > _EXACT):
        raise ConfigError(f"{label} = {show(value)} is not a whole number")
    if abs(value) > LARGEST:
        raise ConfigError(f"{label} = {show(value)} is too large")
    return int(value)


def _mismatch(value: Any, kind: type) -> str:
    """Why a value is no `kind`, and what to write when that can be told."""
    if isinstance(value, str):
        meant = parse_scalar(value.strip())
        fits = isinstance(meant, bool) if kind is bool else not isinstance(meant, bool | str | None)
        if kind in (bool, int, float) and fits:
            return f"is text: write {show(meant)}"
        return f"is text; expected {_EXPECTED[kind]}"
    if kind is str and isinstance(value, bool | int | float):
        return f'is not text: write "{show(value)}"'
    if kind is tuple and value is not None and not isinstance(value, dict):
        return f"is not a list: write [{show(value)}]"
    return f"is not {_EXPECTED[kind]}"


def _checked(label: str, value: Any, limits: Mapping[str, Any], shown: str) -> Any:
    """`value` when it is within the limits; `shown` is how it was written."""
    if isinstance(value, float) and math.isnan(value):
        raise ConfigError(f"{label} = nan is not a number")
    choices = limits.get("choices")
    if choices and any(type(value) is type(choice) for choice in choices) and value not in choices:
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        listed = ", ".join(str(choice) for choice in choices)
        raise ConfigError(f"{label} = {shown} is not one of {listed}. {hint}".strip())
    if isinstance(value, int | float) and not isinstance(value, bool):
        ge, gt, le, lt = (limits.get(name) for name in ("ge", "gt", "le", "lt"))
        low, high = (gt if ge is None else ge), (lt if le is None else le)
        below = low is not None and (value < low or (ge is None and value == low))
        above = high is not None and (value > high or (le is None and value == high))
        if below or above:
            raise ConfigError(f"{label} = {shown} {_outside(ge, gt, le, lt)}")
    return value


def _outside(ge: float | None, gt: float | None, le: float | None, lt: float | None) -> str:
    low, high = (gt if ge is None else ge), (lt if le is None else le)
    if low is None or high is None:
        words = {"at least": ge, "above": gt, "at most": le, "below": lt}
        return next(f"must be {word} {limit}" for word, limit in words.items() if limit is not None)
    open_ends = " and ".join(str(end) for end in (gt, lt) if end is not None)
    return f"is outside {low}..{high}" + (f" ({open_ends} excluded)" if open_ends else "")


def _plain(label: str, value: Any, depth: int = 0) -> Any:
    """A free value: only what a YAML file can hold, so that every config can be written down."""
    if depth > _MAX_DEPTH:
        raise ConfigError(f"{label} is nested too deeply")
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise ConfigError(f"{label} has keys that are not text")
        return {key: _plain(f"{label}.{clean(key)}", item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(f"{label}[{i}]", item, depth + 1) for i, item in enumerate(value)]
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return _whole(label, value)
    if isinstance(value, float):
        return _checked(label, value, {}, show(value))
    raise ConfigError(f"{label} is of type {type(value).__name__}; expected text, numbers, true/false, lists, mappings")
