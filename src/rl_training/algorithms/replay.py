"""What every replay algorithm has in common: the settings of its buffer and how they make one."""

from __future__ import annotations

from dataclasses import dataclass

from rl_training.agent import Parts
from rl_training.algorithms.base import Algorithm
from rl_training.algorithms.stored import StoredConfig, dataset_buffers
from rl_training.config import TrainConfig, setting
from rl_training.data.replay_buffer import ReplayBuffer
from rl_training.data.storage import NO_EXTRAS
from rl_training.errors import ConfigError
from rl_training.specs import ActionSpec, ObsSpec


@dataclass(frozen=True, kw_only=True)
class ReplayConfig(StoredConfig):
    buffer_size: int = setting(1_000_000, help="transitions kept", ge=1)
    learning_starts: int = setting(1_000, help="env steps of random actions stored before the first update", ge=0)
    train_freq: int = setting(1, help="env steps between learning phases", ge=1)
    gradient_steps: int = setting(1, help="updates per learning phase", ge=1)
    gamma: float = setting(0.99, help="discount factor", ge=0, le=1)
    n_step: int = setting(1, help="rewards summed before bootstrapping", ge=1)
    priority: float = setting(0.0, help="exponent of prioritized replay; 0 samples uniformly", ge=0, le=1)
    priority_beta: float = setting(0.4, help="initial importance exponent of prioritized replay, rising to 1", ge=0, le=1)
    relabel: str | None = setting(
        None, help="goals given to stored steps: achieved later in the episode, at its end, or anywhere in it",
        choices=("future", "final", "episode"),
    )  # fmt: skip
    relabel_ratio: float = setting(0.8, help="part of each batch that gets other goals; 0.8 is four of five", ge=0, le=1)


@dataclass(frozen=True, kw_only=True)
class ContinuousReplayConfig(ReplayConfig):
    noise_correlation: float = setting(0.0, help="likeness of exploration noise to that of the step before", ge=0, lt=1)


def continuous_parts(
    config: TrainConfig, obs: ObsSpec, action: ActionSpec, algorithm: Algorithm, extras: frozenset[str] = NO_EXTRAS
) -> Parts:
    """What a recipe for continuous actions makes of its learning rule."""
    noise = config.algorithm.noise_correlation
    return replay_parts(config, obs, action, algorithm, noise_correlation=noise, extras=extras)


def replay_parts(
    config: TrainConfig,
    obs: ObsSpec,
    action: ActionSpec,
    algorithm: Algorithm,
    *,
    random_start: bool = True,
    noise_correlation: float = 0.0,
    extras: frozenset[str] = NO_EXTRAS,
) -> Parts:
    """The algorithm with its buffers. With `random_start` it acts at random until it learns, unless stored data has taught it.

    `extras` is what batches hold besides the transitions.
    """
    c: ReplayConfig = config.algorithm
    return Parts(
        algorithm, replay_buffer(config, obs, action, extras), collect=max(1, c.train_freq // config.env.num_envs),
        offline=dataset_buffers(config, obs, action, gamma=c.gamma, n_step=c.n_step, extras=extras),
        random_steps=c.learning_starts if random_start and not config.offline_updates else 0,
        noise_correlation=noise_correlation,
    )  # fmt: skip


def updates_in(c: ReplayConfig, env_steps: int) -> int:
    """How many updates so many env steps earn, at least one."""
    return max(1, round(env_steps * c.gradient_steps / c.train_freq))


def replay_buffer(
    config: TrainConfig, obs: ObsSpec, action: ActionSpec, extras: frozenset[str] = NO_EXTRAS
) -> ReplayBuffer:
    """The replay buffer that a `ReplayConfig` describes."""
    c: ReplayConfig = config.algorithm
    ratio = c.gradient_steps / c.train_freq
    if c.learning_starts > c.buffer_size:
        raise ConfigError(
            f"learning_starts = {c.learning_starts:,} is more than buffer_size = {c.buffer_size:,}: nothing would be learned.",
            fix="Make algorithm.buffer_size larger or algorithm.learning_starts smaller",
        )
    check_parts(c)
    check_relabel(config)
    # After learning from stored data the policy acts, and learns, from its first step.
    warmup = 0 if config.offline_updates else c.learning_starts
    try:
        return _buffer(config, obs, action, ratio, warmup, extras)
    except MemoryError as error:
        raise ConfigError(
            f"A replay buffer of {c.buffer_size:,} transitions does not fit into memory.", str(error),
            "Use a smaller --algorithm.buffer-size",
        ) from error


def check_parts(c: ReplayConfig) -> None:
    """Refuse a setting of something that is off: it would change nothing."""
    for name, part in (("priority_beta", "priority"), ("relabel_ratio", "relabel")):
        if not getattr(c, part) and getattr(c, name) != getattr(type(c), name):
            raise ConfigError(
                f"algorithm.{name} = {getattr(c, name)} has no effect while algorithm.{part} is off.",
                fix=f"Set algorithm.{part} as well, or leave out {name}",
            )


def check_relabel(config: TrainConfig) -> None:
    """Refuse what relabelled batches cannot be combined with."""
    c: ReplayConfig = config.algorithm
    if c.relabel is None:
        return
    for name, value, off, why in (
        ("algorithm.n_step", c.n_step, 1, "Single steps are relabelled: the later rewards of a window would be for other goals."),
        ("algorithm.priority", c.priority, 0, "Rows get new goals each time; priorities would be for the last ones."),
        ("dataset", config.dataset, None, "Only the run's own experience is relabelled."),
    ):
        if value != off:
            raise ConfigError(
                f"algorithm.relabel = {c.relabel} cannot be combined with {name} = {value}.", why,
                f"Leave out {name} or algorithm.relabel",
            )  # fmt: skip


def _buffer(
    config: TrainConfig, obs: ObsSpec, action: ActionSpec, ratio: float, warmup: int, extras: frozenset[str]
) -> ReplayBuffer:
    c: ReplayConfig = config.algorithm
    return ReplayBuffer(
        obs, action, capacity=c.buffer_size, num_envs=config.env.num_envs,
        batch_size=c.batch_size, gamma=c.gamma, ratio=ratio, warmup=warmup, n_step=c.n_step, priority=c.priority,
        beta=c.priority_beta, beta_updates=max(1, round(config.total_steps * ratio)),
        relabel=c.relabel, relabel_ratio=c.relabel_ratio, extras=extras, seed=config.seed,
    )  # fmt: skip
