"""One validator: what it takes, and its messages word for word."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.config.convert import convert
from rl_training.config.fields import Spec
from rl_training.errors import ConfigError


def _spec(hint: Any, **limits: Any) -> Spec:
    return Spec("x", hint, None, limits)


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (3, float, 3.0),
        (1e5, int, 100_000),
        (True, bool, True),
        ("a", str, "a"),
        (Path("runs"), str, "runs"),
        ([64, 64.0], tuple[int, ...], (64, 64)),
        ([], tuple[int, ...], ()),
        ((0.9, 1), tuple[float, float], (0.9, 1.0)),
        (None, float | None, None),
        (2, float | None, 2.0),
        ("auto", float | str, "auto"),
        (math.inf, float, math.inf),
        (np.float32(0.5), float, 0.5),
        (np.int64(3), int, 3),
        (np.bool_(True), bool, True),
        ({"a": (1, {"b": None})}, dict[str, Any], {"a": [1, {"b": None}]}),
        (2**63 - 1, int, 2**63 - 1),
    ],
)
def test_values_that_fit(value: Any, hint: Any, expected: Any) -> None:
    found = convert("x", value, _spec(hint))
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("text", "hint", "expected"),
    [
        ("1e5", int, 100_000),
        ("1_000", int, 1000),
        ("1e-4", float, 1e-4),
        ("3", float, 3.0),
        ("inf", float, math.inf),
        ("true", bool, True),
        ("False", bool, None),  # capital F is read as YAML reads it
        ("64", str, "64"),
        ("none", str | None, None),
        ("none", str, "none"),
        ("NULL", float | None, None),
        ("256,256", tuple[int, ...], (256, 256)),
        ("[256, 256]", tuple[int, ...], (256, 256)),
        ("256", tuple[int, ...], (256,)),
        ("", tuple[int, ...], ()),
        ("a,1", tuple[str, ...], ("a", "1")),
        ("g=-9.8, name=moon,flag=true,n=3", dict[str, Any], {"g": -9.8, "name": "moon", "flag": True, "n": 3}),
        ("", dict[str, Any], {}),
        ("u=a=b", dict[str, Any], {"u": "a=b"}),
        ("0.5", float | str, 0.5),
        ("auto", float | str, "auto"),
    ],
)
def test_command_line_text_is_read_by_the_type(text: str, hint: Any, expected: Any) -> None:
    found = convert("--x", text, _spec(hint), text=True)
    expected = False if text == "False" else expected
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("value", "hint", "limits", "message"),
    [
        ("64", int, {}, 'x = "64" is text: write 64'),
        ("1e-4", float, {}, 'x = "1e-4" is text: write 0.0001'),
        ("true", bool, {}, 'x = "true" is text: write true'),
        ("yes", bool, {}, 'x = "yes" is text; expected true or false'),
        ("abc", int, {}, 'x = "abc" is text; expected a whole number'),
        ("null", float, {}, 'x = "null" is text; expected a number'),
        (1.5, int, {}, "x = 1.5 is not a whole number"),
        (1e30, int, {}, "x = 1e+30 is not a whole number"),
        (math.inf, int, {}, "x = inf is not a whole number"),
        (math.nan, int, {}, "x = nan is not a whole number"),
        (math.nan, float, {}, "x = nan is not a number"),
        (2**63, int, {}, "x = a number of 64 bits is too large"),
        (2**200, float, {}, "x = a number of 201 bits is too large"),
        (True, int, {}, "x = true is not a whole number"),
        (False, float, {}, "x = false is not a number"),
        (1, bool, {}, "x = 1 is not true or false"),
        (None, int, {}, "x = null is not a whole number"),
        (5, str, {}, 'x = 5 is not text: write "5"'),
        (True, str, {}, 'x = true is not text: write "true"'),
        (5, str | None, {}, 'x = 5 is not text: write "5"'),
        ([1], str, {}, "x = [1] is not text"),
        (64, tuple[int, ...], {}, "x = 64 is not a list: write [64]"),
        ("64", tuple[int, ...], {}, 'x = "64" is text; expected a list'),
        ([64, "32"], tuple[int, ...], {}, 'x[1] = "32" is text: write 32'),
        ([64, 0], tuple[int, ...], {"ge": 1}, "x[1] = 0 must be at least 1"),
        ([0.9], tuple[float, float], {}, "x = [0.9] has 1 values; expected 2"),
        ([1], dict[str, Any], {}, "x = [1] is not a mapping"),
        ({1: 2}, dict[str, Any], {}, "x has keys that are not text"),
        (
            {"a": {"b": print}},
            dict[str, Any],
            {},
            "x.a.b is of type builtin_function_or_method; expected text, numbers, true/false, lists, mappings",
        ),
        ({"a": math.nan}, dict[str, Any], {}, "x.a = nan is not a number"),
        (1.5, float, {"ge": 0, "le": 1}, "x = 1.5 is outside 0..1"),
        (0, float, {"gt": 0, "le": 1}, "x = 0 is outside 0..1 (0 excluded)"),
        (1, float, {"gt": 0, "lt": 1}, "x = 1 is outside 0..1 (0 and 1 excluded)"),
        (0, int, {"ge": 1}, "x = 0 must be at least 1"),
        (0, float, {"gt": 0}, "x = 0 must be above 0"),
        (9, int, {"le": 8}, "x = 9 must be at most 8"),
        (8, int, {"lt": 8}, "x = 8 must be below 8"),
        ("rleu", str, {"choices": ("tanh", "relu")}, 'x = "rleu" is not one of tanh, relu. Did you mean relu?'),
        ("zzz", str, {"choices": ("tanh", "relu")}, 'x = "zzz" is not one of tanh, relu.'),
        ("auot", float | str, {"choices": ("auto",)}, 'x = "auot" is not one of auto. Did you mean auto?'),
        (-1.0, float | str, {"ge": 0, "choices": ("auto",)}, "x = -1.0 must be at least 0"),
    ],
)
def test_values_that_do_not_fit(value: Any, hint: Any, limits: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        convert("x", value, _spec(hint, **limits))
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "hint", "message"),
    [
        ("abc", int, '--x = "abc" is text; expected a whole number'),
        ("1.5", int, "--x = 1.5 is not a whole number"),
        ("yes", bool, '--x = "yes" is text; expected true or false'),
        ("none", int, '--x = "none" is text; expected a whole number'),
        ("", float, "--x = null is not a number"),
        ("64,x", tuple[int, ...], '--x[1] = "x" is text; expected a whole number'),
        ("foo", dict[str, Any], '--x = "foo" is not a mapping: write key=value,key=value'),
        ("=1", dict[str, Any], '--x = "=1" is not a mapping: write key=value,key=value'),
        ("nan", float, "--x = nan is not a number"),
        ("1e999", float, '--x = "1e999" is text; expected a number'),
    ],
)
def test_command_line_text_that_does_not_fit(text: str, hint: Any, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        convert("--x", text, _spec(hint), text=True)
    assert str(error.value) == message


def test_limits_include_and_exclude_their_ends() -> None:
    for value in (0, 1):
        assert convert("x", value, _spec(float, ge=0, le=1)) == value
    for value in (0, 1):
        with pytest.raises(ConfigError):
            convert("x", value, _spec(float, gt=0, lt=1))


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ConfigError, match="is nested too deeply"):
        convert("x", {"a": loop}, _spec(dict[str, Any]))


def test_a_type_hint_that_no_value_can_have_is_the_authors_mistake() -> None:
    with pytest.raises(TypeError, match="cannot be used in a config"):
        convert("x", 1, _spec(set))
