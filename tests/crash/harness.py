"""Kill training runs with SIGKILL, resume them, and compare their end with that of the run that was never killed.

    python tests/crash/harness.py --kills 20                 # a table: 20 kills of every scenario
    python tests/crash/harness.py --only dqn --at 93         # the kill that a failure named, once more

Half of the kills come at a random time after the first checkpoint, half at a random write inside a checkpoint. Every job is a
process of its own, forked from a server that has imported everything and computed nothing, so that a trial costs little more than
its training.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from outcome import Outcome, differences, read_outcome
from player import COUNTER
from scenarios import SCENARIOS

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src"
KILLED = -9
ATTEMPTS = 20  # draws of a moment that comes before the end of the run, before giving up

Job: TypeAlias = dict[str, Any]
Runner: TypeAlias = Callable[[Job], Job]


@contextmanager
def fork_server(**environ: str) -> Iterator[Runner]:
    """A function that runs a job in a fork and returns its `exit` (negative: a signal) and `log`."""
    server = subprocess.Popen(_command(), env=_environ(environ), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None and server.stdout is not None
    asks, answers = server.stdin, server.stdout

    def run(job: Job) -> Job:
        asks.write(json.dumps(job) + "\n")
        asks.flush()
        answer = answers.readline()
        if not answer:
            raise RuntimeError(f"the server ended with exit code {server.wait()} on {job}")
        found: Job = json.loads(answer)
        return found

    try:
        yield run
    finally:
        asks.close()
        server.wait()


def run_plainly(job: Job) -> Job:
    """The same in a new interpreter: slow, but free of whatever a fork may hide. Kills by write number only."""
    assert "signal" not in job, job
    done = subprocess.run(_command(json.dumps(job)), env=_environ({}), text=True, capture_output=True)
    return {"exit": done.returncode, "log": (done.stdout + done.stderr)[-4000:]}


def _command(*arguments: str) -> list[str]:
    return [sys.executable, str(HERE / "player.py"), *arguments]


def _environ(extra: dict[str, str]) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"} | extra


# ---- one trial -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    """Where to kill: before write number `op` of the process, or from outside, `delay` seconds after that write.

    Never at a time since the start: how far a run has come by then depends on what else the machine does.
    """

    op: int
    delay: float | None = None

    def as_job(self, name: str = "kill") -> Job:
        return {"op": self.op} if self.delay is None else {"signal": [name, self.op, self.delay]}

    def __str__(self) -> str:
        return f"{self.op}" if self.delay is None else f"{self.op}+{self.delay:.5f}"

    @classmethod
    def parse(cls, text: str) -> Point:
        op, _, delay = text.partition("+")
        return cls(int(op), float(delay) if delay else None)


@dataclass
class Reference:
    """The run that nobody killed."""

    scenario: str
    outcome: Outcome
    trace: list[list[Any]]  # per write: name, file, inside a checkpoint, seconds

    @property
    def first_checkpoint(self) -> int:
        """The write that published the first checkpoint, counted from 1."""
        return 1 + next(i for i, (name, file, *_) in enumerate(self.trace) if name == "rename" and file.startswith("step_"))

    def draw(self, rng: random.Random, aimed: bool, attempt: int = 0) -> Point:
        """A random moment after the first checkpoint; `aimed`: before a random write inside a later one.

        Otherwise somewhere in the time until the next write, as long as the reference took for it. A run that is over by then has
        become faster, so each further attempt waits half as long.
        """
        after = range(self.first_checkpoint + 1, len(self.trace))
        if aimed:
            return Point(rng.choice([number for number in after if self.trace[number - 1][2]]))
        # By time, so that a moment of training is as likely as one of writing that takes as long.
        start = self.trace[self.first_checkpoint][3]
        moment = rng.uniform(start, self.trace[-1][3])
        op = max(number for number in after if self.trace[number - 1][3] <= moment)
        return Point(op, round((moment - self.trace[op - 1][3]) / 2**attempt, 5))

    def inside(self, op: int, aimed: bool) -> bool:
        """Whether the process died inside a checkpoint; `op` is the last write that it announced."""
        following = op if aimed else op + 1  # an aimed kill comes before the write, another one probably after it
        return op > 0 and following <= len(self.trace) and self.trace[op - 1][2] and self.trace[following - 1][2]


@dataclass
class Trial:
    """A run that was killed (perhaps more than once), resumed to its end, and compared."""

    reference: Reference
    points: list[Point]
    folder: Path
    settings: Job = field(default_factory=dict)
    killed_at: list[int] = field(default_factory=list)  # the last write announced before each kill
    problems: list[str] = field(default_factory=list)
    too_late: bool = False

    @property
    def equal(self) -> bool:
        return not self.problems

    @property
    def inside(self) -> bool:
        return self.reference.inside(self.killed_at[0], aimed=self.points[0].delay is None)

    def run(self, run: Runner, mutant: str = "") -> Trial:
        """Kill at the points, then resume to the end (under a mutant, if one is named) and compare."""
        self.start(run)
        return self if self.too_late else self.finish(run, mutant)

    def start(self, run: Runner) -> Trial:
        """Train until the first kill."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        answer = self._job(run, "train", self.points[0])
        self.too_late = answer["exit"] != KILLED
        return self

    def finish(self, run: Runner, mutant: str = "") -> Trial:
        """Resume until the run ends, dying again at the further points."""
        for point in (*self.points[1:], None):
            answer = self._job(run, "resume", point, mutant)
            if answer["exit"] == KILLED and point is not None:
                continue
            if answer["exit"]:
                self.problems = [f"resuming ended with exit code {answer['exit']}: {answer['log'].strip()}"]
                return self
            break
        self.problems = differences(self.reference.outcome, read_outcome(self.folder))
        return self

    def _job(self, run: Runner, action: str, point: Point | None, mutant: str = "") -> Job:
        job = {"action": action, "scenario": self.reference.scenario, "folder": str(self.folder), "mutant": mutant}
        job["settings"] = self.settings
        counter = self.folder / COUNTER
        counter.write_bytes(bytes(8))  # here, because the process may be killed before it gets to it
        answer = run(job | (point.as_job() if point else {}))
        if answer["exit"] == KILLED:
            self.killed_at.append(struct.unpack("q", counter.read_bytes())[0])
        return answer

    def report(self) -> str:
        """What differs, where the kill was, what is on disk, and the command that does it again."""
        points = []
        for point, op in zip(self.points, self.killed_at):
            # Nothing on disk changes between two writes, so a kill in between is one before the next.
            points.append(str(op if point.delay is None else op + 1))
        at = self.killed_at[0]
        trace = self.reference.trace
        write = f"write {at} ({' '.join(trace[at - 1][:2])})" if 0 < at <= len(trace) else "no write"
        folders = sorted(path for path in self.folder.rglob("*") if path.is_dir())
        listing = [f"{path.relative_to(self.folder)} ({len(list(path.iterdir()))})" for path in folders]
        return "\n".join(
            [
                f"{self.reference.scenario} killed at {', '.join(map(str, self.points))}, last announced {write}:",
                *(f"  {line}" for line in self.problems[:12]),
                *([f"  ... and {len(self.problems) - 12} more"] if len(self.problems) > 12 else []),
                f"  folders (entries): {', '.join(listing)}",
                f"  again: python tests/crash/harness.py --only {self.reference.scenario} --at {' '.join(points)}",
            ]
        )


def make_reference(run: Runner, scenario: str, workspace: Path, settings: Job | None = None, name: str = "") -> Reference:
    """Run a scenario without killing it."""
    if not (workspace / "data").exists():
        run({"action": "write data", "scenario": scenario, "folder": str(workspace)})
    folder = workspace / f"reference-{name or scenario}"
    folder.mkdir()
    answer = run({"action": "train", "scenario": scenario, "folder": str(folder), "settings": settings or {}})
    if answer["exit"]:
        raise RuntimeError(f"{scenario} itself fails with exit code {answer['exit']}:\n{answer['log']}")
    return Reference(scenario, read_outcome(folder), json.loads((folder / "trace.json").read_text()))


# ---- many trials ---------------------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """The line of a scenario in the table."""

    scenario: str
    kills: int = 0
    inside: int = 0
    equal: int = 0
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"| {self.scenario} | {self.kills} | {self.inside} | {self.equal} |"


TITLE = "| scenario | kills | inside a checkpoint write | equal |\n|---|---|---|---|"


def kill_often(run: Runner, reference: Reference, workspace: Path, kills: int, seed: int, per_run: int = 1) -> Tally:
    """`kills` killed runs, alternately aimed and at a random time; each is resumed and compared."""
    tally = Tally(reference.scenario)
    for number in range(kills):
        rng = random.Random(f"{reference.scenario} {seed} {number}")
        for attempt in range(ATTEMPTS):
            points = [reference.draw(rng, number % 2 == 0, attempt)]
            points += [Point(rng.randrange(1, len(reference.trace))) for _ in range(per_run - 1)]
            trial = Trial(reference, points, workspace / f"{reference.scenario}-{number}").run(run)
            if not trial.too_late:
                break
        else:
            raise RuntimeError(f"no kill of {reference.scenario} came before its end")
        tally.kills += 1
        tally.inside += trial.inside
        tally.equal += trial.equal
        if trial.equal:
            shutil.rmtree(trial.folder)
        else:
            tally.failures.append(f"seed {seed}: {trial.report()}")
    return tally


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="killed runs per scenario")
    parser.add_argument("--kills-per-run", type=int, default=1, help="how often each run is killed, resumes included")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, default=list(SCENARIOS), help="these scenarios alone")
    parser.add_argument("--at", nargs="+", type=Point.parse, metavar="WRITE[+SECONDS]", help="kill there, once")
    parser.add_argument("--keep", type=Path, help="leave all files in this new folder")
    options = parser.parse_args(arguments)
    workspace = options.keep or Path(tempfile.mkdtemp(prefix="rl-training-crash-"))
    workspace.mkdir(parents=True, exist_ok=True)
    failed = False
    try:
        with fork_server() as run:
            print(TITLE)
            for scenario in options.only:
                reference = make_reference(run, scenario, workspace)
                if options.at:
                    trial = Trial(reference, options.at, workspace / f"{scenario}-again").run(run)
                    outcome = "not killed" if trial.too_late else "equal" if trial.equal else trial.report()
                    print(f"{scenario}: {outcome}")
                    failed = failed or not trial.equal
                    continue
                tally = kill_often(run, reference, workspace, options.kills, options.seed, options.kills_per_run)
                failed = failed or bool(tally.failures)
                print("\n\n".join([str(tally), *tally.failures]), flush=True)
    finally:
        if not options.keep:
            shutil.rmtree(workspace)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
