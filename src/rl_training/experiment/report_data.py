"""What a run left behind, read for its report. Everything here may be missing, cut off or strange: it was written by others."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rl_training.config.yaml_reader import read_yaml
from rl_training.errors import ConfigError
from rl_training.experiment.runs import read_run_info

Points = list[tuple[float, float]]
_CURVE_POINTS = 400  # more cannot be told apart on a screen


@dataclass
class RunData:
    """One run: what it was, how its returns went, and where its time went."""

    name: str
    info: dict[str, Any]
    settings: dict[str, Any]
    origin: dict[str, str]
    episodes: Points = field(default_factory=list)  # smoothed returns of training episodes
    episode_count: int = 0
    window: int = 1  # episodes that each smoothed value is the mean of
    evaluations: list[tuple[float, float, float]] = field(default_factory=list)  # step, mean, standard deviation
    shares: dict[str, float] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.settings.get('algo', '?')} on {self.settings.get('env_id', '?')}"

    @property
    def unit(self) -> str:
        return "env steps" if self.settings.get("total_steps") else "updates"


def read_run(directory: Path) -> RunData:
    """Read a run; rows that are no use are left out."""
    data = RunData(
        directory.name, read_run_info(directory), _settings(directory), _json(directory / "config_origin.json")
    )
    offline = data.settings.get("offline_updates")
    shift = float(offline) if isinstance(offline, int) else 0.0  # episodes count env steps, evaluations also updates
    returns = [(shift + step, total) for step, total in _numbers(directory / "episodes.jsonl", "step", "total")]
    data.episode_count, data.window = len(returns), max(1, min(100, len(returns) // 20))
    data.episodes = thin(smooth(returns, data.window))
    data.evaluations = [(a, b, c) for a, b, c in _numbers(directory / "evaluations.jsonl", "step", "mean", "std")]
    for row in _rows(directory / "metrics.jsonl"):
        shares = {k.removeprefix("time/"): v for k, v in row.items() if k.startswith("time/") and _is_share(k, v)}
        data.shares = shares or data.shares
    data.summary = _json(directory / "eval" / "summary.json")
    return data


def smooth(points: Points, window: int) -> Points:
    """Means over the last `window` values."""
    result, total = [], 0.0
    for index, (x, y) in enumerate(points):
        total += y
        if index >= window:
            total -= points[index - window][1]
        result.append((x, total / min(index + 1, window)))
    return result


def thin(points: Points) -> Points:
    """At most a few hundred of the points, the last among them."""
    stride = max(1, math.ceil(len(points) / _CURVE_POINTS))
    return points[::-1][::stride][::-1]


def _settings(directory: Path) -> dict[str, Any]:
    try:
        return read_yaml(directory / "config.yaml").values
    except ConfigError:
        return {}


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):  # the last line of a killed run may be cut
                continue
            if isinstance(row, dict):
                yield row


def _numbers(path: Path, *names: str) -> Iterator[Any]:
    for row in _rows(path):
        values = [row.get(name) for name in names]
        if all(_is_number(value) for value in values):
            yield tuple(float(value) for value in values if value is not None)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_share(key: str, value: Any) -> bool:
    return key != "time/fps" and _is_number(value) and 0 <= value <= 1
