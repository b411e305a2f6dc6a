"""What a run left behind, in a form in which two runs can be compared bit for bit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rl_training.experiment.checkpointing import CheckpointStore
from rl_training.experiment.manifest import read_manifest
from rl_training.state import ChunkedArray

Outcome = dict[str, Any]
# Bytes of a file whose rows hold wall times; its rows are compared without those instead.
METRICS_BYTES = "run/logger/lengths/metrics"
# What only environments that sample from their own spaces draw from; no environment of the scenarios does.
SPACES = re.compile("collector/envs/.*/(action|observation)_space/value/.*")


def run_inside(folder: Path) -> Path:
    """The one run directory in a trial's folder."""
    (run,) = (path.parent for path in folder.glob("*/config.yaml"))
    return run


def read_outcome(folder: Path) -> Outcome:
    """Everything that a finished run decided: its last checkpoint, its logs, what it kept, and its final evaluation."""
    run = run_inside(folder)
    found = state_of(run)
    found |= {f"metrics.jsonl row {i}": row for i, row in enumerate(metrics(run))}
    for name in ("episodes.jsonl", "evaluations.jsonl"):
        found |= {f"{name} row {i}": row for i, row in enumerate((run / name).read_text().splitlines())}
    found["checkpoints kept"] = _kept(run)
    found["unfinished files"] = sorted(str(p.relative_to(run)) for p in run.rglob(".*"))
    info = json.loads((run / "run.json").read_text())
    found |= {f"run.json {key}": info[key] for key in ("status", "exit_code", "step")}
    return found | {f"result {k}": v for k, v in json.loads((folder / "result.json").read_text()).items()}


def state_of(run: Path, spaces: bool = False) -> Outcome:
    """The newest checkpoint of a run as a flat dict, with the generators of the environments' spaces if wanted."""
    flat: Outcome = {}
    _flatten(CheckpointStore(run).load_latest().parts, "", flat)
    return {k: v for k, v in flat.items() if k != METRICS_BYTES and (spaces or not SPACES.fullmatch(k))}


def _kept(run: Path) -> list[tuple[int, bool]]:
    """Step and mark of the three newest checkpoints and the best. A kill in the last removal may leave one more."""
    kept = {manifest["step"]: manifest["best"] for manifest in map(read_manifest, CheckpointStore(run).list())}
    best = max((step for step, marked in kept.items() if marked), default=None)
    return [(step, marked) for step, marked in sorted(kept.items()) if step == best or step in sorted(kept)[-3:]]


def metrics(run: Path) -> list[dict[str, Any]]:
    """The rows of metrics.jsonl without wall times."""
    rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [{key: value for key, value in row.items() if not key.startswith("time/")} for row in rows]


def differences(expected: Outcome, found: Outcome) -> list[str]:
    """One line for every value that differs in any bit."""
    lines = [f"missing: {key}" for key in expected.keys() - found.keys()]
    lines += [f"not expected: {key} = {_short(found[key])}" for key in found.keys() - expected.keys()]
    for key in expected.keys() & found.keys():
        if not same(expected[key], found[key]):
            lines.append(f"{key}: {_short(expected[key])} became {_short(found[key])}")
    return sorted(lines)


def same(a: Any, b: Any) -> bool:
    """Equal type, shape and bits (NaN equals NaN)."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray | np.generic):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return bool(a == b) or (a != a and b != b)


def _flatten(node: Any, path: str, flat: Outcome) -> None:
    if isinstance(node, dict):
        for key, value in node.items():
            _flatten(value, f"{path}/{key}" if path else key, flat)
    elif isinstance(node, ChunkedArray):
        _flatten(node.chunks, f"{path}/chunks", flat)
    elif isinstance(node, list) and any(isinstance(value, dict | list | np.ndarray) for value in node):
        for index, value in enumerate(node):
            _flatten(value, f"{path}/{index}", flat)
    else:
        flat[path] = node.numpy() if isinstance(node, torch.Tensor) else node


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) < 120 else text[:117] + "..."
