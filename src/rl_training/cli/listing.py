"""`rl-training list envs|algos|presets|runs`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rl_training.cli.parser import Parser


def run(arguments: list[str]) -> int:
    parser = Parser("list", "List what there is.")
    parser.add_argument("what", choices=list(_LISTS), help="what to list")
    parser.add_argument("--like", default="", metavar="TEXT", help="only lines that contain it, in any case")
    parser.add_argument("--output-dir", default="runs", metavar="DIR", help="where runs are looked for (default: runs)")
    options = parser.parse_args(arguments)
    lines = _LISTS[options.what](Path(options.output_dir))
    shown = [line for line in lines if options.like.lower() in line.lower()]
    if shown:
        print("\n".join(shown))
        return 0
    print(f"no {options.what}" + (f" like '{options.like}'" if options.like else ""))
    return 0


def _envs(root: Path) -> list[str]:
    from rl_training.envs.names import env_ids

    return env_ids()


def _algos(root: Path) -> list[str]:
    from rl_training.algorithms import REGISTRY

    return [f"{n:<8} {e.summary}   ({', '.join(e.actions)} actions)" for n, e in REGISTRY.items()]


def _presets(root: Path) -> list[str]:
    from rl_training.config.layers import PRESETS
    from rl_training.config.yaml_reader import read_yaml

    files = sorted(PRESETS.glob("*/*.yaml"))
    return [f"{f.parent.name:<8} {read_yaml(f).values.get('env_id', '?'):<32} {f}" for f in files]


def _runs(root: Path) -> list[str]:
    from rl_training.config.scalars import clean
    from rl_training.experiment.runs import find_runs

    runs = find_runs(root)
    wide = max((len(str(run.path)) for run in runs), default=0)
    return [f"{run.path!s:<{wide}}  {clean(run.status):<11}  {run.step:>11,}  {clean(run.started)}" for run in runs]


_LISTS: dict[str, Callable[[Path], list[str]]] = {"envs": _envs, "algos": _algos, "presets": _presets, "runs": _runs}
