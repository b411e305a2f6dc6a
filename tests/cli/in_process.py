"""What the tests of commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TINY = [
    "--total-steps=256",
    "--num-envs=2",
    "--num-steps=32",
    "--epochs=1",
    "--minibatches=1",
    "--model.hidden=8,8",
    "--evaluation.num-episodes=2",
    "--logging.tensorboard=false",
]


@dataclass
class Outcome:
    """What a command printed (paths and times made equal) and its exit code."""

    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


def normal(text: str, folder: Path) -> str:
    """Text without what differs from run to run."""
    text = text.replace(str(folder), "TMP")
    text = re.sub(r"\d{8}T\d{6}Z(-\d+)?", "STAMP", text)
    return re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\+00:00)?", "TIME", text)
