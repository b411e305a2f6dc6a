"""Errors a user can act on: what was wrong, why, and what to type next. Each kind has its own exit code."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class UserError(Exception):
    """A mistake or a condition the user can mend. The command line prints it without a traceback."""

    exit_code = 2

    def __init__(self, what: str, why: str = "", fix: str = "") -> None:
        self.what, self.why, self.fix = what, why, fix
        super().__init__(what, why, fix)

    def __str__(self) -> str:
        return "\n".join(line for line in (self.what, self.why, self.fix) if line)


class ConfigError(UserError):
    """Unknown key, wrong type, value out of range, or parts that do not fit together."""


class MissingExtraError(UserError):
    """An optional dependency is needed and not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the {extra} extra.", fix=f'Fix: pip install "rl-training[{extra}]"')


class StorageError(UserError):
    """The disk refused a write; nothing that was saved before is lost."""

    exit_code = 3


class CheckpointError(UserError):
    """No valid checkpoint could be read."""

    exit_code = 4


class LockedError(UserError):
    """Another process is writing this run."""

    exit_code = 5


class NonFiniteError(UserError):
    """NaN or infinity appeared in an observation, a reward or a loss. `evidence` is what is needed to reproduce it."""

    exit_code = 6

    def __init__(self, what: str, why: str, fix: str, evidence: dict[str, Any]) -> None:
        super().__init__(what, why, fix)
        self.evidence = evidence


class EnvError(UserError):
    """The environment raised, died, hung, or broke its contract."""

    exit_code = 7


def did_you_mean(word: str, options: Iterable[str], note: str = "Did you mean {}?") -> str:
    """A suggestion sentence, or the empty string when nothing is close."""
    names = list(options)
    lowered = {name.lower(): name for name in reversed(names)}
    close = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    return note.format(lowered[close[0]]) if close else ""
