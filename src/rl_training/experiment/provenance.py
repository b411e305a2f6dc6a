"""What a run was made with: command line, code, versions and machine, without the secrets that these may hold."""

from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rl_training import _atomic
from rl_training.experiment.manifest import versions

MAX_DIFF_BYTES = 2**20
_MASK = "***"
_SECRET_NAME = re.compile(r"key|token|password|passwd|secret", re.IGNORECASE)
# The part of a URL before the @, and the shapes of well-known tokens
_CREDENTIAL = re.compile(r"(?<=://)[^/\s@]+(?=@)|\b(?:gh[opsu]_|github_pat_|glpat-|hf_|sk-|xox[abp]-|AKIA)[\w-]{12,}")
_ASSIGNMENT = re.compile(rf"((?:{_SECRET_NAME.pattern})[\w.-]{{0,40}}=)[^&\s]+", re.IGNORECASE)


def describe_process(run_dir: Path) -> dict[str, Any]:
    """Facts about this process for `run.json`; uncommitted changes of the code go to `git.diff` in the run."""
    return {
        "command": shlex.join(mask_secrets(sys.argv)),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "git": _describe_git(run_dir),
        "versions": versions(),
        "hardware": _describe_hardware(),
        "host_class": f"{platform.system()}-{platform.machine()}-{os.cpu_count()}cpu",
    }


def mask_secrets(arguments: Iterable[str]) -> list[str]:
    """A command line that is fit to be written down: values of flags named like secrets become ***."""
    masked: list[str] = []
    value_is_secret = False
    for argument in arguments:
        if value_is_secret and not argument.startswith("--"):
            masked.append(_MASK)
        else:
            masked.append(_mask_text(argument))
        value_is_secret = argument.startswith("-") and "=" not in argument and bool(_SECRET_NAME.search(argument))
    return masked


def _mask_text(text: str) -> str:
    return _ASSIGNMENT.sub(rf"\1{_MASK}", _CREDENTIAL.sub(_MASK, text))


def _describe_git(run_dir: Path) -> dict[str, Any]:
    commit = _git("rev-parse", "HEAD")
    if commit is None:
        return {}
    diff = _git("diff", "HEAD", "--no-ext-diff", "--no-textconv") or ""
    remote = _git("remote", "get-url", "origin") or ""
    if 0 < len(diff.encode()) <= MAX_DIFF_BYTES:
        # Only what looks like a credential is masked here: `key=` is ordinary code.
        _atomic.write_bytes(run_dir / "git.diff", _CREDENTIAL.sub(_MASK, diff).encode())
    return {"commit": commit.strip(), "dirty": bool(diff), "remote": _mask_text(remote.strip())}


def _git(*arguments: str) -> str | None:
    """The output of a git command in the current directory, or None without git or a repository."""
    command = ["git", "--no-optional-locks", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace")


def _describe_hardware() -> dict[str, Any]:
    found: dict[str, Any] = {"cpu": platform.machine(), "cpus": os.cpu_count()}
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists() and (match := re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text())):
        found["cpu"] = match[1]
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        found["gpus"] = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return found
