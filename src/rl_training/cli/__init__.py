"""The command line: `rl-training COMMAND ...`, the same as `python -m rl_training.cli COMMAND ...`."""

from __future__ import annotations

from typing import Any

from rl_training.cli.app import main

__all__ = ["load_config", "main"]


def __getattr__(name: str) -> Any:
    if name == "load_config":  # on first use: `--help` must not wait for the config machinery
        from rl_training.config import load_config

        return load_config
    raise AttributeError(f"module 'rl_training.cli' has no attribute '{name}'")
