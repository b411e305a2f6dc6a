"""The card of a dataset, `README.md` in its folder, and `suite.json`: both written from what the dataset says about itself."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rl_training import _atomic
from rl_training.data.formats.native import DATA, MANIFEST, read_manifest

CARD, SUITE = "README.md", "suite.json"


def returns_of(returns: Sequence[float], scale: dict[str, Any] | None) -> dict[str, Any]:
    """The returns of the whole episodes of a dataset, and the normalized score of their mean."""
    if not returns:
        return {"whole_episodes": 0, "mean": None, "min": None, "max": None, "normalized_score": None}
    mean = statistics.fmean(returns)
    score = None if scale is None else 100.0 * (mean - scale["random"]) / (scale["expert"] - scale["random"] or 1.0)
    return {"whole_episodes": len(returns), "mean": mean, "min": min(returns), "max": max(returns), "normalized_score": score}


def write_card(folder: Path) -> None:
    """`README.md` beside the data of a suite's dataset."""
    manifest = read_manifest(folder)
    made, env_id = manifest["made"], manifest["env_id"]
    found, scale = made["returns"], made["scale"]
    how = "" if made["checkpoint"] is None else " (in evaluation, without exploration)"
    rows = {
        "policy": made["policy"],
        "policy's return": f"{_number(made['policy_return'])}{how}",
        "return of the data": f"mean {_number(found['mean'])}, from {_number(found['min'])} to {_number(found['max'])}, "
        f"over {found['whole_episodes']:,} whole episodes",
        "normalized score": _number(found["normalized_score"]) + ("" if scale is None else
            f" (0 is {scale['random']:.1f}, 100 is {scale['expert']:.1f}: {scale['note']})"),
        "made by": f"`{made['command']}`",
        "seed": str(made["seed"]),
        "date": made["date"],
        "versions": ", ".join(f"{name} {version}" for name, version in made["versions"].items()),
        "SHA-256 of the data": manifest["sha256"][DATA],
    }  # fmt: skip
    lines = [
        f"# {env_id}: {made['quality']}", "",
        f"{manifest['rows']:,} steps in {manifest['episodes']:,} episodes. `rl-training data inspect DIR` looks at them, and",
        f"`rl-training train ALGO {env_id} --dataset DIR --offline-updates N` learns from them.", "",
        "| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items()),
    ]  # fmt: skip
    _atomic.write_bytes(folder / CARD, ("\n".join(lines) + "\n").encode())


def write_suite(root: Path) -> Path:
    """`suite.json`: every dataset below `root` that is whole, with its returns and its hash."""
    folders = sorted(path.parent for path in root.glob(f"*/*/{MANIFEST}") if (path.parent / CARD).is_file())
    entries = {}
    for folder in folders:
        manifest = read_manifest(folder)
        made = manifest["made"]
        entries[folder.relative_to(root).as_posix()] = {
            "env_id": manifest["env_id"],
            "quality": made["quality"],
            "steps": manifest["rows"],
            "episodes": manifest["episodes"],
            "sha256": manifest["sha256"][DATA],
            **{key: made[key] for key in ("policy", "policy_return", "returns", "scale", "command", "seed", "versions", "date")},
        }
    _atomic.write_bytes(root / SUITE, (json.dumps(entries, indent=1) + "\n").encode())
    return root / SUITE


def _number(value: float | None) -> str:
    return "not known" if value is None else f"{value:,.1f}"
