"""Shared by the crash tests: one fork server, and each scenario's run that nobody killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import Reference, Runner, fork_server, make_reference


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=2, help="killed runs per scenario (pytest tests/crash --kills 20)")


@pytest.fixture(scope="session")
def kills(request: pytest.FixtureRequest) -> int:
    return request.config.getoption("--kills", default=2)


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("crash")


@pytest.fixture(scope="session")
def run() -> Iterator[Runner]:
    """Runs a job in a fork of a process that has imported everything."""
    with fork_server(PYTHONHASHSEED="0") as runner:
        yield runner


@pytest.fixture(scope="session")
def reference(run: Runner, workspace: Path) -> Callable[[str], Reference]:
    """The unkilled run of a scenario, made once."""
    made: dict[str, Reference] = {}

    def get(scenario: str) -> Reference:
        if scenario not in made:
            made[scenario] = make_reference(run, scenario, workspace)
        return made[scenario]

    return get
