"""Words of YAML and the command line, and how values are quoted in messages."""

from __future__ import annotations

import math

import pytest

from rl_training.config.scalars import parse_scalar, show


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("1e-4", 1e-4),
        ("1E5", 1e5),
        ("1.", 1.0),
        (".5", 0.5),
        ("-3", -3),
        ("+3", 3),
        ("1_000_000", 1_000_000),
        ("012", 12),
        ("-.inf", -math.inf),
        ("inf", math.inf),
        ("true", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
    ],
)
def test_words_that_are_values(word: str, meaning: object) -> None:
    value = parse_scalar(word)
    assert (value, type(value)) == (meaning, type(meaning)), f"{word!r} read as {value!r}"


@pytest.mark.parametrize(
    "word",
    ["on", "off", "yes", "no", "y", "12:30", "2024-01-01", "0x10", "1e999", "none", "<<", "=", "1e", "_1", "٣", " 1"],
)
def test_words_that_stay_text(word: str) -> None:
    assert parse_scalar(word) == word, f"{word!r} read as {parse_scalar(word)!r}"


def test_not_a_number_is_recognized() -> None:
    assert math.isnan(parse_scalar(".nan"))  # type: ignore[arg-type]


def test_a_huge_run_of_digits_is_no_integer_and_costs_nothing() -> None:
    assert parse_scalar("9" * 5000) == "9" * 5000


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        ("a\x1b[31m\nb", '"a\\x1b[31m\\nb"'),
        ("x" * 100, '"' + "x" * 60 + '..."'),
        ([1, "a", [2]], '[1, "a", [...]]'),
        ({"a": 1}, "{a}"),
        (2**200, "a number of 201 bits"),
        (object(), "object"),
    ],
)
def test_values_are_shown_short_and_on_one_line(value: object, shown: str) -> None:
    assert show(value) == shown
