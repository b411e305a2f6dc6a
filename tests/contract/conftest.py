"""Fixtures of the contract tests; `tiny` has what they are made of."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "crash"))  # comparing runs is the same work there

from envs import Match
from scenarios import write_random_pendulum
from tiny import Maker, random_match

from rl_training.data.formats.native import write_dataset


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without -m, leave out what takes the compiler minutes."""
    if not config.getoption("markexpr"):
        for item in items:
            if item.get_closest_marker("slow") and Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="slow: run with -m slow"))


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A folder with random steps of an environment, made once."""
    made: dict[str, Path] = {}

    def get(source: str) -> Path:
        if source not in made:
            made[source] = tmp_path_factory.mktemp("data") / "random"
            if source == "Pendulum-v1":
                write_random_pendulum(made[source])
            else:
                _, actions, *nested = source.split()
                write_dataset(random_match(Match(actions, bool(nested))), made[source])
        return made[source]

    return get


@pytest.fixture
def make(tmp_path: Path, data: Callable[[str], Path]) -> Maker:
    return Maker(tmp_path, data)
