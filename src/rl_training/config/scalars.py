"""What one word of YAML or of the command line means, and how a value is shown in a message.

YAML 1.1 surprises are gone: `1e-4` is a number, `on`, `off`, `yes`, `no`, `12:30` and dates are text, `012` is twelve.
"""

from __future__ import annotations

import math
import re
from typing import Any

INTEGER = re.compile(r"[-+]?[0-9][0-9_]*")
FLOAT = re.compile(
    r"[-+]?(?:\.[0-9][0-9_]*|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.?(?:inf|Inf|INF)|\.?(?:nan|NaN|NAN)"
)
WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
WORDS |= {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}

LARGEST = 2**63 - 1  # what fits the integer types of NumPy, torch and safetensors metadata
_SHOWN = 60  # characters of a value that a message quotes
_DIGITS = 40  # longer than any number that fits, short enough for int() to accept at once


def parse_scalar(text: str) -> bool | int | float | str | None:
    """The value that an unquoted word stands for: null, true/false, a whole number, a number, or the text itself."""
    if text in WORDS:
        return WORDS[text]
    digits = text.replace("_", "")
    if INTEGER.fullmatch(text) and len(digits) <= _DIGITS:
        return int(digits)
    if FLOAT.fullmatch(text):
        number = float(re.sub(r"\.(?=[iInN])", "", digits))
        if math.isfinite(number) or text[-1] in "fFnN":  # 1e999 is no number that can be used: it stays text
            return number
    return text


def show(value: Any) -> str:
    """A value as a message quotes it: short, on one line, without control characters."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return f'"{clean(value)}"'
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, list | tuple):
        items = ("[...]" if isinstance(item, list | tuple) else show(item) for item in value[:_SHOWN])
        return f"[{_short(', '.join(items))}]"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict):
        return f"{{{_short(', '.join(clean(str(key)) for key in list(value)[:_SHOWN]))}}}"
    return type(value).__name__


def clean(text: str) -> str:
    """Text that can be printed as it is: control characters escaped, cut when long."""
    return _short(repr(text)[1:-1])


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
