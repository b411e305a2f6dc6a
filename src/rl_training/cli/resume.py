"""`rl-training resume RUN`: continue an interrupted run, bit for bit as if it had never stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rl_training.cli.parser import Parser

_MORE = """settings that may change on resume:
  --total-steps N, --checkpoint.every N, --checkpoint.keep N, --env.step-timeout S, --logging.SETTING VALUE"""


def run(arguments: list[str]) -> int:
    parser = Parser("resume", "Continue a run from its newest valid checkpoint.", epilog=_MORE)
    parser.add_argument("run", metavar="RUN", help="a run directory, or the name of a run under runs/")
    options, flags = parser.parse_known_args(arguments)
    import time

    from rl_training import algorithms
    from rl_training.cli.results import print_result
    from rl_training.config import load_config
    from rl_training.experiment.runs import resolve_run

    directory = resolve_run(options.run, Path("runs"))
    algo = load_config(directory / "config.yaml", preset=False).algo
    start = time.monotonic()
    result = algorithms.find(algo).resume(directory, **_changes(flags, algo)).result
    assert result is not None, "a resumed run has a result"
    print_result(result, time.monotonic() - start)
    return 0


def _changes(flags: list[str], algo: str) -> dict[str, Any]:
    """Flags as settings by dotted name, each of its own type."""
    from rl_training.config.convert import convert
    from rl_training.config.layers import flag_layer, split_flags
    from rl_training.config.names import settings_of
    from rl_training.config.schema import joined

    layer = flag_layer(split_flags(flags), algo)
    if layer.problems:
        raise joined(layer.problems)
    settings = settings_of(algo)
    return {key: convert(e.label, e.value, settings[key], text=e.text) for key, e in layer.entries.items()}
