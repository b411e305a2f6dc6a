"""What is settled before a run starts: the choices that were left open, the memory it needs, and the data it learns from."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import torch

from rl_training._atomic import size_text
from rl_training.algorithms import REGISTRY, find
from rl_training.algorithms.stored import StoredConfig
from rl_training.config import DataConfig, TrainConfig
from rl_training.config.schema import section_values
from rl_training.data.batch import BLOCK, Buffer
from rl_training.data.dataset import Dataset, load_dataset
from rl_training.data.dataset_buffer import BLOCK_ROWS, DatasetBuffer
from rl_training.data.mixture import MixtureBuffer
from rl_training.data.replay_buffer import ReplayBuffer
from rl_training.data.rewards import reward_map
from rl_training.data.storage import Storage
from rl_training.envs.factory import choose_backend
from rl_training.errors import ConfigError
from rl_training.experiment.envs import goal_reward, time_limit
from rl_training.experiment.memory import available_bytes
from rl_training.runtime.plan import make_plan

if TYPE_CHECKING:
    from rl_training.agent import Agent, Parts


def resolve(agent: Agent) -> tuple[TrainConfig, list[str]]:
    """The config with every `auto` decided, and lines that tell the user what was chosen and how much memory it takes."""
    config = agent.config
    check_phases(config, agent.parts)
    attach_goals(agent)
    parameters = sum(p.numel() for p in agent.parts.algorithm.parameters() if p.requires_grad)
    own = agent.parts.buffer
    updates = config.offline_updates + (0 if own is None else round(config.total_steps * own.updates_per_step))
    plan = make_plan(config.runtime, parameters, updates)
    backend = "sync"  # an environment that the user passed as an object has no other version
    if agent.env_source is None or config.env.backend != "auto":
        backend = choose_backend(config.env_id, config.env.backend, config.env.num_envs, config.env.kwargs)
    resolved = dataclasses.replace(
        config,
        runtime=dataclasses.replace(config.runtime, device=plan.device, accelerate=plan.accelerate),
        env=dataclasses.replace(config.env, backend=backend),
    )
    title = f"{config.algo} on {config.env_id}   seed {config.seed}   {plan.device}, {config.runtime.threads} torch thread(s)"
    notes = [title, f"updates: {plan.accelerate} ({plan.reason}); {parameters:,} parameters"]
    if isinstance(own, ReplayBuffer) and config.total_steps:
        if own.warmup >= config.total_steps:
            notes.append(f"note: nothing will be learned: learning_starts = {own.warmup:,} env steps")
        notes.append(check_memory(own.storage, config.total_steps + config.env.num_envs))
    return resolved, notes


def check_phases(config: TrainConfig, parts: Parts) -> None:
    """Refuse a run that would learn from nothing, or from data that its algorithm cannot use."""
    if config.dataset is not None and parts.offline is None:
        users = ", ".join(name for name in REGISTRY if issubclass(find(name).config_class, StoredConfig))
        raise ConfigError(
            f"{config.algo} learns from its own fresh rollouts; it cannot use a dataset.", f"These can: {users}.", "Drop dataset"
        )
    if config.dataset is not None and getattr(config.algorithm, "priority", False):
        raise ConfigError("Batches that mix in a dataset are drawn uniformly.", fix="Set algorithm.priority to 0")
    if config.dataset is None and (config.offline_updates or REGISTRY[config.algo].needs_data):
        how_long = ", and say how long to learn from it with --offline-updates N" if REGISTRY[config.algo].offline else ""
        raise ConfigError(
            f"{config.algo} is to learn from stored data, but no dataset is named.",
            fix=f"Name it with --dataset PATH{how_long}",
        )
    if config.total_steps and parts.buffer is None:
        raise ConfigError(
            f"{config.algo} learns from stored data alone; it has no use for total_steps = {config.total_steps:,} env steps.",
            fix="Leave out total_steps, or go on with another algorithm: awac, iql and td3_bc learn on their own steps too",
        )
    if not config.total_steps and not config.offline_updates:
        raise ConfigError(
            "There is nothing to do: total_steps and offline_updates are both 0.", fix="Give --total-steps or --offline-updates"
        )
    check_data_settings(config)


def check_data_settings(config: TrainConfig) -> None:
    """Refuse settings of stored data where there are none, or where they are never mixed with env steps."""
    usual = DataConfig(**section_values(find(config.algo).defaults, "data"))
    for field in dataclasses.fields(DataConfig):
        given = getattr(config.data, field.name)
        if given == getattr(usual, field.name):
            continue
        if config.dataset is None:
            raise ConfigError(f"data.{field.name} = {given} has no effect without a dataset.", fix="Name one with --dataset PATH")
        if field.name == "offline_fraction" and not config.total_steps:
            raise ConfigError(
                f"data.offline_fraction = {given} has no effect without env steps.", fix="Give --total-steps, or leave it out"
            )


def block(config: TrainConfig) -> int:
    """How many updates from stored data alone are made at a time: as many as divide the distance between any two hooks."""
    cadences = (config.evaluation.every, config.checkpoint.every, config.logging.every)
    return math.gcd(BLOCK, *(every for every in cadences if every))


def attach_goals(agent: Agent) -> None:
    """Give a buffer that relabels goals the rewards of the environment, unless it has them."""
    own = agent.parts.buffer
    if isinstance(own, ReplayBuffer) and own.relabel is not None and own.relabel.judge is None:
        own.relabel.judge = goal_reward(agent.config, agent.env_source)


def check_memory(storage: Storage, steps: int) -> str:
    """Refuse a replay that cannot fit into free memory, before it is filled; otherwise say what it takes.

    Memory is committed as rows are written, so a run of `steps` env steps takes no more than these.
    """
    rows = min(storage.steps * storage.envs, steps)
    need, free = round(storage.bytes_when_full * rows / (storage.steps * storage.envs)), available_bytes()
    if need > free:
        raise ConfigError(
            f"The replay buffer of {rows:,} transitions needs {size_text(need)}; {size_text(free)} of memory are free.",
            fix=f"Use --algorithm.buffer-size {int(rows * free / need * 0.8)} or less",
        )
    return f"replay: up to {rows:,} transitions, {size_text(need)} ({size_text(free)} of memory free)"


def stored_data(agent: Agent, name: str) -> Dataset:
    """A dataset as the agent's environment has it."""
    config, space = agent.config, agent.action_space
    low, high = (space.low, space.high) if isinstance(space, gym.spaces.Box) else (None, None)
    return load_dataset(
        name, agent.obs_spec, agent.action_spec, low, high, max_episode_steps=time_limit(config), mmap=config.data.memory_map
    )


def buffer(agent: Agent) -> tuple[Buffer, dict[str, Any] | None]:
    """The buffer that the run learns from, with the dataset in it when there is one, and what to record about the data."""
    config, own, offline = agent.config, agent.parts.buffer, agent.parts.offline
    attach_goals(agent)
    if config.dataset is None:
        assert own is not None, "check_phases has seen to it"
        return own, None
    assert offline is not None
    dataset = stored_data(agent, config.dataset).filter(config.data.keep_best)
    reward = reward_map(config.data.reward, config.data.reward_scale, config.data.reward_bias, dataset)
    dataset = replace(dataset, reward=reward(dataset.reward))
    policy = agent.parts.algorithm.policy
    if policy.normalizer is not None:
        policy.normalizer.fit((torch.from_numpy(part["obs"].copy()) for part in dataset.chunks(BLOCK_ROWS)), eps=1e-3)
    info = {
        "name": dataset.name, "sha256": dataset.sha256, "transitions": len(dataset), "reward": dataclasses.asdict(reward)
    }  # fmt: skip
    stored = offline(dataset)
    if not config.total_steps:
        return stored, info
    assert isinstance(own, ReplayBuffer) and isinstance(stored, DatasetBuffer)
    return MixtureBuffer(own, stored, config.data.offline_fraction, reward), info
