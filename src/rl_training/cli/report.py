"""`rl-training report RUN`: the run as one page."""

from __future__ import annotations

from pathlib import Path

from rl_training.cli.parser import Parser


def run(arguments: list[str]) -> int:
    parser = Parser(
        "report", "Write report.html (one file, nothing is fetched from elsewhere) and curve.svg into a run."
    )
    parser.add_argument("run", metavar="RUN", help="a run directory, or the name of a run under runs/")
    options = parser.parse_args(arguments)
    from rl_training.experiment.report import write_report
    from rl_training.experiment.runs import resolve_run

    written = write_report(resolve_run(options.run, Path("runs")))
    print(f"report   {written}")
    print(f"curve    {written.with_name('curve.svg')}")
    return 0
