"""`rl-training data inspect`: a dataset in numbers, what is wrong with it, and a repaired copy."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from rl_training.cli.parser import Parser
from rl_training.errors import ConfigError

if TYPE_CHECKING:
    from rl_training.cli.data_env import Known
    from rl_training.data.dataset import Dataset

WRONG_DATA = 1  # the exit code when the reader refuses the data


def run(arguments: list[str]) -> int:
    parser = Parser(
        "data inspect", "Print what a dataset holds and what is wrong with it. Exit code 1 when it cannot be learned from."
    )
    parser.add_argument("dataset", metavar="DATASET", help="a folder of ours, a D4RL file (.hdf5), or minari:NAME")
    parser.add_argument("--env", metavar="ENV", help="the environment of the data (default: what they say themselves)")
    parser.add_argument("--repair", type=Path, metavar="OUT", help="write a repaired copy; the dataset is not changed")
    options = parser.parse_args(arguments)
    from rl_training.cli.data_env import know, stored_env
    from rl_training.cli.data_report import report
    from rl_training.data.findings import find
    from rl_training.data.formats.native import refuse_existing
    from rl_training.data.formats.unchecked import read_unchecked
    from rl_training.experiment.envs import UNKNOWN_LIMIT

    if options.repair is not None:
        refuse_existing(options.repair)
    known = know(options.env, stored_env(options.dataset))
    refusal, learned = _as_learned(options.dataset, known)
    try:
        dataset = read_unchecked(options.dataset, known.expected, known.limit or UNKNOWN_LIMIT)
    except ConfigError as error:
        raise refusal or error from None  # the reader says it better where it refuses the data as well
    print(report(dataset, known))
    if learned is not None and learned != len(dataset):
        print(f"note      {learned:,} of these rows are learned from: D4RL's reading leaves out the row of every timeout")
    findings = find(dataset, known.limit)
    print("findings" + (": none" if not findings and refusal is None else ""))
    for finding in sorted(findings, key=lambda finding: not finding.fatal):
        print(f"  {'ERROR' if finding.fatal else 'note '}  {finding.what}\n         {finding.todo}")
    if refusal is not None:
        print("\n         ".join(["  ERROR  it cannot be loaded:", *str(refusal).splitlines()]))
    if options.repair is not None:
        _repair(dataset, options.repair, arguments)
        return 0
    return 0 if refusal is None else WRONG_DATA


def _as_learned(source: str, known: Known) -> tuple[ConfigError | None, int | None]:
    """The message with which training would refuse the data, or how many rows it would learn from."""
    from rl_training.data.dataset import load_dataset
    from rl_training.experiment.envs import UNKNOWN_LIMIT

    wanted = known.expected
    bounds, mmap = (wanted.action_low, wanted.action_high), Path(source).is_dir()
    limit = known.limit or UNKNOWN_LIMIT
    try:
        return None, len(load_dataset(source, wanted.obs, wanted.action, *bounds, max_episode_steps=limit, mmap=mmap))
    except ConfigError as error:
        return error, None


def _repair(dataset: Dataset, out: Path, arguments: list[str]) -> None:
    from rl_training.cli.data_record import made_by
    from rl_training.data.formats.native import write_dataset
    from rl_training.data.repair import repair

    mended, did = repair(dataset)
    if not did:
        print("repair    there was nothing to repair, so nothing was written")
        return
    made = made_by("data inspect", arguments) | {"repaired": dataset.source, "sha256": dataset.sha256, "did": did}
    write_dataset(mended, out, made)
    print("repaired")
    for step in did:
        print(f"  {step}")
    print(f"written   {out}   {len(mended):,} of {len(dataset):,} rows; {dataset.source} is as it was")
    print(f"  next    rl-training data inspect {shlex.quote(str(out))}")
