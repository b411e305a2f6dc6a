"""`rl-training data convert`: from one layout of stored experience to another, without losing a step."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rl_training.cli.parser import Parser
from rl_training.errors import ConfigError

if TYPE_CHECKING:
    from rl_training.cli.data_env import Known
    from rl_training.data.dataset import Dataset

HDF5 = (".hdf5", ".h5")


def run(arguments: list[str]) -> int:
    parser = Parser("data convert", "Write a dataset in another layout. The ending of TARGET says which.")
    parser.add_argument("source", metavar="SOURCE", help="a folder of ours, a D4RL file (.hdf5), or minari:NAME")
    parser.add_argument("target", metavar="TARGET", help="FILE.hdf5 (D4RL), minari:NAME, or the name of a new folder (ours)")
    parser.add_argument("--env", metavar="ENV", help="the environment of the data (default: what they say themselves)")
    options = parser.parse_args(arguments)
    from rl_training.cli.data_env import know, stored_env

    known = know(options.env, stored_env(options.source))
    dataset = replace(_read(options.source, known), env_id=known.env_id)
    if known.note:
        print(f"note     {known.note}")
    _write(dataset, options.target, known, arguments)
    print(f"written  {options.target}   {len(dataset):,} steps in {len(dataset.episode_starts()):,} episodes")
    print(f"  next   rl-training data inspect {shlex.quote(options.target)}")
    return 0


def _read(source: str, known: Known) -> Dataset:
    from rl_training.data.dataset import load_dataset
    from rl_training.data.formats.d4rl import has_successors, read_d4rl
    from rl_training.experiment.envs import UNKNOWN_LIMIT

    wanted, limit = known.expected, known.limit or UNKNOWN_LIMIT
    path = Path(source)
    if path.is_file() and path.suffix in HDF5 and has_successors(path):
        return read_d4rl(path, wanted, keep_timeouts=True, max_episode_steps=limit)
    bounds = (wanted.action_low, wanted.action_high)
    dataset = load_dataset(source, wanted.obs, wanted.action, *bounds, max_episode_steps=limit)
    if path.suffix in HDF5:
        print("note     the file has no next_observations, so rows with a timeout are left out: where they led is not known")
    return dataset


def _write(dataset: Dataset, target: str, known: Known, arguments: list[str]) -> None:
    if target.startswith("minari:"):
        from rl_training.data.findings import discontinuous
        from rl_training.data.formats.minari_writer import write_minari

        if len(rows := discontinuous(dataset)):
            raise ConfigError(
                f"{dataset.source}: next_obs of row {rows[0]} is not the obs of the next row, inside an episode.",
                "Minari stores each observation once, so one of the two would be lost.",
                f"End the episodes there first: rl-training data inspect {shlex.quote(dataset.source)} --repair OUT",
            )
        write_minari(dataset, target.removeprefix("minari:"), known.expected.action, known.action_space)
    elif Path(target).suffix in HDF5:
        from rl_training.data.formats.d4rl_writer import write_d4rl

        write_d4rl(dataset, target, known.action_space)
        if cut := int(dataset.truncated.sum()):
            print(f"note     D4RL's own reading leaves out the {cut:,} rows with a timeout; the file has them all")
    else:
        from rl_training.cli.data_record import made_by
        from rl_training.data.formats.native import write_dataset

        made = made_by("data convert", arguments) | {"converted": dataset.source, "sha256": dataset.sha256}
        write_dataset(dataset, target, made)
