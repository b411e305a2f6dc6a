"""The registry holds three stand-in algorithms and there are no presets."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest
from conftest_algorithms import PPO, SAC, TD3

from rl_training.config import layers
from rl_training.errors import ConfigError, did_you_mean

ALGORITHMS = {cls.name: cls for cls in (PPO, SAC, TD3)}


def _find(name: str) -> type:
    if name.lower() not in ALGORITHMS:
        raise ConfigError(f"unknown algorithm {name!r}. {did_you_mean(name, ALGORITHMS)}".strip())
    return ALGORITHMS[name.lower()]


@pytest.fixture(autouse=True, scope="module")
def fake_algorithms() -> Any:
    import rl_training

    fake = types.ModuleType("rl_training.algorithms")
    fake.find, fake.names = _find, lambda: list(ALGORITHMS)  # type: ignore[attr-defined]
    patch = pytest.MonkeyPatch()
    patch.setitem(sys.modules, "rl_training.algorithms", fake)
    patch.setitem(vars(rl_training), "algorithms", fake)
    yield
    patch.undo()


@pytest.fixture(autouse=True)
def presets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of presets; tests put files in."""
    folder = tmp_path / "presets"
    (folder / "ppo").mkdir(parents=True)
    monkeypatch.setattr(layers, "PRESETS", folder)
    monkeypatch.chdir(tmp_path)
    return folder
