"""`rl-training config show|validate`: the settings of a run or a file, and where each came from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from rl_training.cli.parser import Parser

if TYPE_CHECKING:
    from rl_training.config import Resolved


def run(arguments: list[str]) -> int:
    parser = Parser("config", "Look at settings: of a run as they were used, of a file as they would be.")
    parser.add_argument("action", choices=["show", "validate"], help="print every setting, or only check the file")
    parser.add_argument("source", metavar="RUN_or_FILE", help="a run directory, the name of a run, or a YAML file")
    parser.add_argument("--origin", action="store_true", help="show where each value came from")
    options = parser.parse_args(arguments)
    resolved = _resolve(options.source)
    config = resolved.config
    if options.action == "validate":
        print(
            f"{options.source} is valid: {config.algo} on {config.env_id}, {config.total_steps:,} steps, seed {config.seed}"
        )
        return 0
    from rl_training.config import dump_yaml

    print(_with_origin(resolved) if options.origin else dump_yaml(config), end="")
    return 0


def _resolve(source: str) -> Resolved:
    """A file in layers with its preset, or the complete config of a run with the origins noted when it began."""
    from rl_training.config import Resolved, from_command_line, load_config
    from rl_training.experiment.runs import resolve_run

    path = Path(source)
    if path.is_file() or path.suffix in (".yaml", ".yml"):
        return from_command_line(None, None, (), path)
    directory = resolve_run(source, Path("runs"))
    config = load_config(directory / "config.yaml", preset=False)
    return Resolved(config, _noted(directory) or _compared(directory / "config.yaml"))


def _noted(directory: Path) -> dict[str, str]:
    """What `train` wrote down; empty for runs that were started from Python."""
    from rl_training.cli.results import ORIGIN_FILE

    try:
        noted = json.loads((directory / ORIGIN_FILE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return {str(key): str(value) for key, value in noted.items()} if isinstance(noted, dict) else {}


def _compared(file: Path) -> dict[str, str]:
    """Origins told from the values: what equals the default of the algorithm is called so."""
    from rl_training.config import from_keywords, load_config
    from rl_training.config.writer import flat

    config = load_config(file, preset=False)
    plain = flat(from_keywords(config.algo, env_id=config.env_id))
    return {k: "default" if plain.get(k) == value else "set when the run began" for k, value in flat(config).items()}


def _with_origin(resolved: Resolved) -> str:
    from rl_training.config.scalars import clean, show
    from rl_training.config.writer import flat

    rows = [(key, show(value), clean(resolved.origin.get(key, "?"))) for key, value in flat(resolved.config).items()]
    wide = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "".join(f"{key:<{wide[0]}}  {value:<{wide[1]}}  {origin}\n" for key, value, origin in rows)
