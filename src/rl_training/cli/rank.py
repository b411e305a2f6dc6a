"""`rl-training rank RUN`: which checkpoint is best, told from stored data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl_training.cli.parser import Parser, non_negative, positive
from rl_training.errors import ConfigError

if TYPE_CHECKING:
    from rl_training.agent import Agent
    from rl_training.data.dataset import Dataset

_ABOUT = """Order the checkpoints of a run without playing, by what stored data tell:
  fqe  fitted Q evaluation: the value of the policy at the starts of episodes, by a critic fitted to the data
  td   the error of the run's own critics on the data (small is better)
A run keeps its last three checkpoints; --checkpoint.keep 20 keeps more. With --play N each one also plays N episodes,
which shows how far the order can be trusted."""


def run(arguments: list[str]) -> int:
    parser = Parser("rank", _ABOUT)
    parser.add_argument("run", metavar="RUN", help="a run directory, or the name of a run under runs/")
    parser.add_argument("--dataset", metavar="DATA", help="data to judge by (default: what the run learned from)")
    parser.add_argument("--method", choices=["fqe", "td"], default="fqe", help="how to judge (default: fqe)")
    parser.add_argument("--updates", type=positive, default=5_000, metavar="N", help="of fqe's critic (default: 5000)")
    parser.add_argument("--play", type=non_negative, default=0, metavar="N", help="episodes to play with each (default: 0)")
    parser.add_argument("--seed", type=non_negative, default=0, metavar="S", help="start of all randomness (default: 0)")
    options = parser.parse_args(arguments)
    import torch

    from rl_training import _atomic
    from rl_training.data.rewards import RewardMap
    from rl_training.experiment.runs import read_run_info, resolve_run
    from rl_training.experiment.selection import fitted_q, rank_correlation, td_error

    torch.set_num_threads(1)
    folder = resolve_run(options.run, Path("runs"))
    agents = _agents(folder)
    data = _data(agents[0][1], options.dataset)
    reward = RewardMap(**(read_run_info(folder).get("dataset") or {}).get("reward", {}))
    what = "value" if options.method == "fqe" else "-error"
    print(f"{'checkpoint':<16}{what:>12}{'left error':>12}" + (f"{'return':>10}" if options.play else ""))
    rows: list[dict[str, Any]] = []
    for name, agent in agents:
        if options.method == "fqe":
            gamma = getattr(agent.config.algorithm, "gamma", 0.99)
            found = fitted_q(agent, data, gamma, options.updates, options.seed)
        else:
            found = td_error(agent, data, reward, options.seed)
        row, line = {"checkpoint": name, "judged": found.value, "left_error": found.fit}, ""
        if options.play:
            row["return"] = agent.evaluate(options.play).mean
            line = f"{row['return']:>10.1f}"
        rows.append(row)
        print(f"{name:<16}{found.value:>12.3f}{found.fit:>12.4f}{line}", flush=True)
    best = max(rows, key=lambda row: row["judged"])
    print(f"best by {options.method}: {best['checkpoint']}")
    report = {"method": options.method, "updates": options.updates, "dataset": data.sha256, "checkpoints": rows}
    if options.play:
        agreement = rank_correlation([row["judged"] for row in rows], [row["return"] for row in rows])
        print(f"rank correlation with the returns: {agreement:.2f}")
        report["rank_correlation"] = agreement
    target = folder / "eval" / f"rank-{options.method}.json"
    _atomic.make_dir(target.parent)
    _atomic.write_bytes(target, (json.dumps(report, indent=1) + "\n").encode())
    print(f"written to {target}")
    return 0


def _agents(folder: Path) -> list[tuple[str, Agent]]:
    from rl_training.cli.evaluate import load
    from rl_training.experiment.retention import list_checkpoints, short_name

    found = [(short_name(path), load(path)) for path in list_checkpoints(folder / "checkpoints")]
    if len(found) < 2:
        raise ConfigError(
            f"{folder} has {len(found)} checkpoint{'s' * (len(found) != 1)}: there is nothing to choose from.",
            fix="Train with --checkpoint.every N --checkpoint.keep 20",
        )
    return found


def _data(agent: Agent, given: str | None) -> Dataset:
    from rl_training.experiment.prepare import stored_data

    name = given or agent.config.dataset
    if name is None:
        raise ConfigError(f"This run of {agent.name} learned from no dataset.", fix="Name one with --dataset DATA")
    data = stored_data(agent, name)
    return data if given else data.filter(agent.config.data.keep_best)
