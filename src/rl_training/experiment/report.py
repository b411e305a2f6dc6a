"""The report of a run: one HTML file that can be mailed. It runs no script and fetches nothing."""

from __future__ import annotations

import json
import math
import shlex
from html import escape
from pathlib import Path
from typing import Any

from rl_training import _atomic
from rl_training.experiment.report_curve import curve, description
from rl_training.experiment.report_data import RunData, read_run

REPORT, CURVE = "report.html", "curve.svg"
_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --soft: #5c5c5c; --line: #d9d9d9; --back: #fff; --tint: #f3f5f7;
  --bar: #0072b2; }
@media (prefers-color-scheme: dark) { :root { --ink: #f0f0f0; --soft: #b0b0b0; --line: #3a3d42; --back: #17191c; --tint: #22252a;
  --bar: #56b4e9; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; background: var(--back); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: .5rem 0 0; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .25rem 0; } .soft { color: var(--soft); overflow-wrap: anywhere; }
.scores { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1rem 0; padding: 0; list-style: none; }
.scores li { background: var(--tint); border-radius: .5rem; padding: .5rem 1rem; flex: 1 1 9rem; }
.scores b { display: block; font-size: 1.3rem; font-variant-numeric: tabular-nums; }
svg { width: 100%; height: auto; } .curve { max-width: 46rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .2rem .75rem .2rem 0; border-bottom: 1px solid var(--line); vertical-align: top;
  overflow-wrap: anywhere; font-weight: normal; } th { color: var(--soft); min-width: 7rem; }
pre { background: var(--tint); padding: .75rem; border-radius: .5rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.shares td { white-space: nowrap; }
.shares rect { fill: var(--bar); } td.bar { width: 60%; } td.bar svg { height: .8rem; display: block; margin-top: .35rem; }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def write_report(run_dir: Path) -> Path:
    """Write `report.html` and `curve.svg` into a run, finished or not; returns the path of the former."""
    data = read_run(run_dir)
    picture = curve(data, _target(data))
    _atomic.write_bytes(run_dir / CURVE, picture.encode())
    _atomic.write_bytes(run_dir / REPORT, page(data, picture, run_dir).encode())
    return run_dir / REPORT


def page(data: RunData, picture: str, run_dir: Path) -> str:
    """The HTML of a report; every text of the run is escaped."""
    status = str(data.info.get("status", "unknown"))
    started = str(data.info.get("started", "?"))
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(data.title)} - rl-training</title><style>{_STYLE}</style></head><body>",
        f'<h1>{escape(data.title)}</h1><p class="soft">{escape(data.name)}</p>',
        f'<p class="soft">{escape(status)}, seed {escape(_text(data.settings.get("seed")))}, started {escape(started)}</p>',
        f'<ul class="scores">{_scores(data)}</ul>',
        "<h2>Learning curve</h2>", picture, f'<p class="soft">{escape(description(data))}.</p>',
    ]  # fmt: skip
    if data.shares:
        parts += ["<h2>Where the time went</h2>", _shares(data.shares)]
    parts += ["<h2>How to get this again</h2>", f"<pre>{escape(_commands(data, run_dir))}</pre>"]
    parts += [
        "<h2>Settings</h2>",
        _settings(data),
        "<h2>Made with</h2>",
        _table(_made_with(data.info)),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _scores(data: RunData) -> str:
    tiles: list[tuple[str, str]] = []
    if data.summary:
        label = f"{_text(data.summary.get('checkpoint'))}, {_text(data.summary.get('episodes'))} test episodes"
        tiles.append((" ± ".join(_score(data.summary.get(name)) for name in ("mean", "std")), label))
        if isinstance(rate := data.summary.get("success_rate"), int | float):
            tiles.append((f"{rate:.0%}", "of these episodes were successful"))
    if data.evaluations:
        step, mean, std = data.evaluations[-1]
        tiles.append((f"{mean:.1f} ± {std:.1f}", f"last evaluation, at {step:,.0f} {data.unit}"))
        step, mean, std = max(data.evaluations, key=lambda row: row[1])
        tiles.append((f"{mean:.1f} ± {std:.1f}", f"best evaluation, at {step:,.0f} {data.unit}"))
    if data.episodes:
        tiles.append((f"{data.episodes[-1][1]:.1f}", f"last training episodes (mean of {data.window})"))
    return (
        "".join(f"<li><b>{escape(value)}</b>{escape(label)}</li>" for value, label in tiles) or "<li>no scores yet</li>"
    )


def _shares(shares: dict[str, float]) -> str:
    rows = []
    for name, share in sorted(shares.items(), key=lambda item: -item[1]):
        bar = f'<svg viewBox="0 0 100 4" preserveAspectRatio="none"><rect width="{100 * share:.1f}" height="4"/></svg>'
        rows.append(f'<tr><th>{escape(name)}</th><td>{share:.1%}</td><td class="bar">{bar}</td></tr>')
    return f'<table class="shares">{"".join(rows)}</table>'


def _commands(data: RunData, run_dir: Path) -> str:
    git = data.info.get("git")
    commit = git.get("commit") if isinstance(git, dict) else None
    lines = [
        f"# as it was typed\n{_text(data.info.get('command'))}",
        f"# every setting as it was\nrl-training train --config {shlex.quote(str(run_dir))}/config.yaml",
    ]
    if commit:
        state = " with changes (git.diff in the run)" if isinstance(git, dict) and git.get("dirty") else ""
        lines.append(f"# code: commit {_text(commit)}{state}")
    return "\n\n".join(lines)


def _settings(data: RunData) -> str:
    """What somebody chose first; what was left at its default folds away."""
    flat: dict[str, str] = {}
    for key, value in data.settings.items():
        leaves = value.items() if isinstance(value, dict) else ()
        flat |= {f"{key}.{leaf}": _text(item) for leaf, item in leaves} or {key: _text(value)}
    chosen = {k: v for k, v in flat.items() if not str(data.origin.get(k, "default")).endswith("default")}
    rest = {k: v for k, v in flat.items() if k not in chosen}
    table = _table({k: f"{v}   ({data.origin[k]})" for k, v in chosen.items()})
    return f"{table}<details><summary>{len(rest)} defaults</summary>{_table(rest)}</details>"


def _made_with(info: dict[str, Any]) -> dict[str, str]:
    rows: dict[str, str] = {}
    for key in ("versions", "hardware"):
        part = info.get(key)
        rows |= {str(k): _text(v) for k, v in part.items()} if isinstance(part, dict) else {}
    return rows


def _table(rows: dict[str, str]) -> str:
    cells = "".join(f"<tr><th>{escape(key)}</th><td>{escape(value)}</td></tr>" for key, value in rows.items())
    return f"<table>{cells}</table>"


def _text(value: Any) -> str:
    """A value for people, cut when long."""
    if isinstance(value, float):
        return f"{value:.1f}" if 10 <= abs(value) < 1e6 else f"{value:.4g}"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 500 else text[:500] + "..."


def _score(value: Any) -> str:
    return f"{value:.1f}" if isinstance(value, int | float) and math.isfinite(value) else "?"


def _target(data: RunData) -> float | None:
    """The return at which Gymnasium calls this environment solved, where it says so."""
    import gymnasium as gym

    spec = gym.registry.get(str(data.settings.get("env_id")))
    return None if spec is None or spec.reward_threshold is None else float(spec.reward_threshold)
