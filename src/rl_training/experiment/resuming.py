"""Opening a run again: which checkpoint, under which config, and what has changed since."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from rl_training.config import TrainConfig, diff, load_config
from rl_training.errors import ConfigError
from rl_training.experiment.checkpointing import Checkpoint, CheckpointStore
from rl_training.experiment.manifest import versions
from rl_training.experiment.runs import read_run_info

if TYPE_CHECKING:
    from rl_training.agent import Agent

FREE_TO_CHANGE = ("total_steps", "logging.", "checkpoint.", "env.step_timeout", "output_dir")


def reopen(
    directory: Path, kind: type[Agent] | None, env: Any, changes: dict[str, Any]
) -> tuple[CheckpointStore, Agent, Checkpoint, list[str]]:
    """The run's store, its agent rebuilt, its newest valid checkpoint, and lines to show the user."""
    saved = load_config(directory / "config.yaml", preset=False)
    config = load_config(directory / "config.yaml", changes, preset=False) if changes else saved
    refuse_changes(directory, saved, config)
    store = CheckpointStore(directory, config.checkpoint.keep)
    checkpoint = store.load_latest()
    end = config.offline_updates + config.total_steps
    # A run that was killed between its last checkpoint and its end has only its end to do.
    if checkpoint.step >= end and read_run_info(directory).get("status") == "finished":
        raise ConfigError(
            f"This run finished at {checkpoint.step:,} of {end:,} steps.",
            fix=f"More: rl-training resume {directory} --total-steps {max(config.total_steps, 1) * 2}",
        )
    agent = make_agent(config, kind, env)
    notes = [*store.skipped, f"resuming {directory} at step {checkpoint.step:,}", *version_notes(checkpoint)]
    return store, agent, checkpoint, notes


def make_agent(config: TrainConfig, kind: type[Agent] | None, env: Any) -> Agent:
    """The agent of a stored config; `env` stands in for an environment that only exists as an object."""
    from rl_training import algorithms

    wanted = algorithms.find(config.algo)
    if kind is not None and kind is not wanted:
        raise ConfigError(
            f"This was trained with {config.algo}, not {kind.name}.", fix=f"Use {wanted.__name__} instead of {kind.__name__}"
        )
    try:
        return wanted.from_config(config, env)
    except ConfigError as error:
        if env is None and not gym.registry.get(config.env_id):
            raise ConfigError(
                error.what, "It was trained on an environment that only exists in Python.",
                f"Give it: {wanted.__name__}.load(path, env=make_my_env) or {wanted.__name__}.resume(path, env=make_my_env)",
            ) from error
        raise


def refuse_changes(directory: Path, old: TrainConfig, new: TrainConfig) -> None:
    """A resumed run keeps every setting that shapes what it learns."""
    changed = [(key, a, b) for key, a, b in diff(old, new) if not key.startswith(FREE_TO_CHANGE)]
    if changed:
        table = "; ".join(f"{key}: {a} -> {b}" for key, a, b in changed)
        key, _, value = changed[0]
        raise ConfigError(
            f"{key} cannot change on resume.", f"Changed: {table}",
            f"Start a new run instead: rl-training train --config {directory}/config.yaml --{key.replace('_', '-')} {value}",
        )  # fmt: skip


def version_notes(checkpoint: Checkpoint) -> list[str]:
    """Libraries that differ from those the checkpoint was written with: the run goes on, but not bit for bit."""
    now, then = versions(), checkpoint.manifest["versions"]
    drift = [f"{name} {then.get(name)} -> {now.get(name)}" for name in sorted({*now, *then}) if now.get(name) != then.get(name)]
    return [f"note: not bit-exact, versions changed: {', '.join(drift)}"] if drift else []


def check_dataset(directory: Path, now: dict[str, Any] | None) -> None:
    """The data of a resumed run must be the data it began with."""
    before = read_run_info(directory).get("dataset")
    if before is not None and now is not None and before["sha256"] != now["sha256"]:
        raise ConfigError(
            "The dataset has changed since this run began.",
            f"It had {before['transitions']:,} transitions then and has {now['transitions']:,} now.",
            fix="Put the data back, or start a new run",
        )
