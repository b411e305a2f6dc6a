"""An argument parser whose complaints look like all our other messages."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from rl_training.errors import ConfigError, did_you_mean


class Parser(argparse.ArgumentParser):
    """`argparse` for one command: no abbreviations, and UserError instead of usage and exit."""

    def __init__(self, command: str, description: str, **settings: Any) -> None:
        super().__init__(
            prog=f"rl-training {command}", description=description, allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter, **settings,
        )  # fmt: skip

    def error(self, message: str) -> NoReturn:
        unknown = message.removeprefix("unrecognized arguments: ").split()[0]
        hint = did_you_mean(unknown, self._option_string_actions) if message.startswith("unrecognized") else ""
        raise ConfigError(f"{self.prog}: {message}. {hint}".rstrip(), fix=f"Help: {self.prog} --help")


def non_negative(text: str) -> int:
    """A whole number from 0 on."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number")
    return int(text)


def positive(text: str) -> int:
    """A whole number from 1 on."""
    if not non_negative(text):
        raise argparse.ArgumentTypeError("'0' is too small: give 1 or more")
    return int(text)
