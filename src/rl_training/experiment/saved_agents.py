"""Agents on disk outside of runs: config and weights in one verified folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rl_training._atomic import make_new_dir, write_bytes
from rl_training.config import dump_yaml, load_config
from rl_training.errors import CheckpointError, ConfigError
from rl_training.experiment.checkpointing import Checkpoint, CheckpointStore
from rl_training.experiment.resuming import make_agent
from rl_training.runtime.acting import Actor

if TYPE_CHECKING:
    from rl_training.agent import Agent

AgentT = TypeVar("AgentT", bound="Agent")


def save_agent(agent: Agent, path: Path) -> Path:
    """Write `config.yaml` and one checkpoint with the learner's state; an existing folder is not overwritten."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not make_new_dir(path):
        raise ConfigError(f"{path} exists already.", fix="Save under another name, or remove it first")
    write_bytes(path / "config.yaml", dump_yaml(agent.config).encode())
    state = {"algorithm": dict(agent.parts.algorithm.state_dict())}
    CheckpointStore(path, keep=1).save(0, {"learner": state}, {"algo": agent.name, "env_id": agent.config.env_id})
    return path


def load_agent(kind: type[AgentT], path: Path, env: Any) -> AgentT:
    """Rebuild an agent from a saved folder, a run directory (its best checkpoint, else its newest) or one checkpoint."""
    inside = next((p for p in (path, *path.parents) if (p / "config.yaml").is_file()), None)
    if inside is None or not path.exists():
        raise CheckpointError(f"No saved agent at '{path}'.", "A run directory or the folder given to save() was expected.",
                              "List the runs with: rl-training list runs")  # fmt: skip
    agent = make_agent(load_config(inside / "config.yaml", preset=False), kind, env)
    checkpoint = _read(inside, path)
    agent.parts.algorithm.load_state_dict(checkpoint.parts["learner"]["algorithm"])
    agent.actor = Actor(agent.parts.algorithm.policy)
    return agent  # type: ignore[return-value]


def _read(folder: Path, path: Path) -> Checkpoint:
    store = CheckpointStore(folder)
    if (path / "manifest.json").is_file():
        return store.load(path)
    best = store.best()
    return store.load(best) if best is not None else store.load_latest()
