"""The tables of docs/results.md about learning from stored data: every algorithm on the same data."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

STORED = Path(__file__).resolve().parent / "results" / "offline"
# 97.5 % points of Student's t by degrees of freedom: half-widths of 95 % intervals over few seeds.
T95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def offline_tables() -> str:
    """One table per suite that is stored, the one with most runs first."""
    reports = [json.loads(path.read_text()) for path in sorted(STORED.glob("*.json"))]
    reports.sort(key=lambda report: -sum(map(len, report["runs"].values())))
    return "\n\n".join(offline_table(report) for report in reports)


def offline_table(report: dict[str, Any]) -> str:
    data = report["data"]
    scored = any(row["normalized"] is not None for rows in report["runs"].values() for row in rows)
    online = max(row.get("env_steps", 0) for rows in report["runs"].values() for row in rows)
    what = "before → after each seed's env steps" if online else "return of each seed"
    head = f"| algorithm | updates | {what} | mean ± 95 % interval |" + (" normalized |" if scored else "")
    lines = [
        f"### {report['suite']}", "",
        f"{data['rows']:,} steps in {data['episodes']:,} episodes of {report['env_id']}; their mean return is "
        f"{data['mean']:,.0f}, the best {data['best']:,.0f}.{f' {online:,} env steps follow.' if online else ''}", "",
        head, "|" + "---|" * (head.count("|") - 1),
    ]  # fmt: skip
    ordered = sorted(report["runs"].items(), key=lambda item: -mean_of(item[1]))
    for label, rows in ordered:
        cells = [label, f"{rows[0]['updates']:,}", ", ".join(map(shown, rows)), interval(rows)]
        cells += [f"{statistics.fmean(row['normalized'] for row in rows):.1f}"] if scored else []
        lines.append("| " + " | ".join(cells) + " |")
    versions = ", ".join(f"{name} {report['versions'][name]}" for name in ("torch", "gymnasium"))
    lines += ["", f"Measured {report['date']} by `{report['command']}` on {report['hardware']} ({versions}); "
                  f"data by `{report['data_command']}`."]  # fmt: skip
    return "\n".join(lines)


def shown(row: dict[str, Any]) -> str:
    """The return of a seed; where env steps followed, with that before them."""
    return f"{row['before']:,.0f} → {row['last']:,.0f}" if "before" in row else f"{row['last']:,.0f}"


def mean_of(rows: list[dict[str, Any]]) -> float:
    return statistics.fmean(row["last"] for row in rows)


def interval(rows: list[dict[str, Any]]) -> str:
    """The mean, with the half-width of its interval where there are seeds enough to have one."""
    scores = [row["last"] for row in rows]
    if len(scores) < 2:
        return f"{scores[0]:,.0f} (one seed)"
    half = T95[len(scores) - 1] * statistics.stdev(scores) / math.sqrt(len(scores))
    return f"{statistics.fmean(scores):,.0f} ± {half:,.0f}"
