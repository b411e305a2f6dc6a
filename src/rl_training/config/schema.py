"""The settings of a run: what is trained, on which environment, and how it is evaluated, saved and shown."""

# ruff: noqa: RUF009  `setting` gives a fresh dataclasses.field, which the rule cannot see

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from typing import Any

from rl_training.config.convert import convert
from rl_training.config.fields import setting, specs_of
from rl_training.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The networks."""

    hidden: tuple[int, ...] = setting((64, 64), "sizes of the hidden layers", ge=1)
    activation: str = setting("tanh", "non-linearity between layers", choices=("tanh", "relu", "silu", "gelu", "elu"))
    init: str = setting("orthogonal", "how weights start", choices=("orthogonal", "default", "xavier"))
    block: str = setting("plain", "hidden layers, or SimBa's residual blocks of these widths", choices=("plain", "residual"))
    layer_norm: bool = setting(False, "normalize the activations of every hidden layer")
    dueling: bool = setting(False, "split Q-values into a state value and advantages")
    noisy: bool = setting(False, "explore by learned noise on the weights of the last two layers, not by epsilon")
    noisy_sigma: float = setting(0.5, "deviation of that noise at the start", gt=0)
    normalize_obs: bool = setting(False, "scale observations by their running mean and variance")
    normalize_reward: bool = setting(False, "scale rewards by the running deviation of the return")
    log_std_init: float = setting(0.0, "log standard deviation of continuous actions at the start")
    encoder: str = setting(
        "auto",
        "first layers: nature is the Atari CNN, auto looks at the observations",
        choices=("auto", "flat", "nature"),
    )


# By the name of what was published with it; data/rewards.py has what each does.
REWARD_CHANGES = (
    "none", "return_range", "locomotion_iql", "antmaze_iql", "antmaze_cql", "antmaze_cal_ql", "antmaze_rebrac",
    "adroit_cal_ql", "standardize", "clip",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """How stored experience is used; only together with `dataset`."""

    keep_best: float = setting(1.0, "part of the episodes that is kept, those of the highest return", gt=0, le=1)
    reward: str = setting("none", "published change of rewards, made before anything is learned", choices=REWARD_CHANGES)
    reward_scale: float = setting(1.0, "rewards are then multiplied by this")
    reward_bias: float = setting(0.0, "and this is added")
    offline_fraction: float | None = setting(
        None, "share of stored rows in each batch once there are env steps; none: as in the union of both", ge=0, le=1
    )
    memory_map: bool = setting(False, "leave the data on disk and read rows as they are drawn")


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """The training environments."""

    num_envs: int = setting(1, "copies that are stepped together", ge=1)
    backend: str = setting(
        "auto", "what steps the copies", choices=("auto", "sync", "async", "native", "envpool", "ale")
    )
    kwargs: dict[str, Any] = setting({}, "arguments of the environment itself, such as {gravity: 9.8}")
    step_timeout: float = setting(60.0, "seconds before a step of a worker process counts as hung", gt=0)


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """Test episodes during training; they never change what is learned."""

    every: int = setting(10_000, "env steps between evaluations (updates when offline); 0 = only at the end", ge=0)
    num_episodes: int = setting(20, "episodes per evaluation; 0 = never evaluate", ge=0)
    deterministic: bool = setting(True, "act without exploration noise")


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    """Saved states that a run can resume from."""

    every: int = setting(10_000, "env steps between checkpoints (updates when offline); 0 = only at the end", ge=0)
    keep: int = setting(3, "newest checkpoints to keep (the best one is kept besides)", ge=1)


@dataclass(frozen=True, kw_only=True)
class LoggingConfig:
    """What is written and shown while training."""

    every: int = setting(1_000, "env steps between records of metrics (updates when offline)", ge=1)
    tensorboard: bool = setting(True, "write TensorBoard event files too")
    progress: str = setting(
        "auto",
        "live view, plain lines or nothing; auto looks at the terminal",
        choices=("auto", "live", "plain", "quiet"),
    )


@dataclass(frozen=True, kw_only=True)
class RuntimeConfig:
    """Where and how fast."""

    device: str = setting("auto", "cpu, cuda, cuda:1; auto picks what is faster here")
    threads: int = setting(1, "CPU threads of torch", ge=1)
    accelerate: str = setting(
        "auto",
        "how updates run: as written, compiled, as a CUDA graph, or as a CUDA graph of compiled kernels",
        choices=("auto", "eager", "compile", "graph", "compile+graph"),
    )
    matmul: str = setting(
        "float32",
        "precision of matrix products on a GPU: tf32 rounds what is multiplied to 10 bits and takes half the time",
        choices=("float32", "tf32"),
    )
    deterministic: bool = setting(False, "only deterministic kernels, slower on a GPU")


SECTIONS: dict[str, type] = {
    "model": ModelConfig,
    "data": DataConfig,
    "env": EnvConfig,
    "evaluation": EvaluationConfig,
    "checkpoint": CheckpointConfig,
    "logging": LoggingConfig,
    "runtime": RuntimeConfig,
}


# Lengths that an algorithm may have its own defaults for (None in TrainConfig: left out), and what holds otherwise.
LENGTHS = {"total_steps": 100_000, "offline_updates": 0}


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Everything that decides a run. What is left out takes the defaults of the algorithm.

    >>> TrainConfig(algo="ppo", env_id="CartPole-v1", seed=7).env.num_envs   # doctest: +SKIP
    8
    """

    algo: str = setting(MISSING, "name of the algorithm")
    env_id: str = setting(MISSING, "environment to learn, as gymnasium.make takes it")
    seed: int = setting(0, "start of every random stream", ge=0, le=2**32 - 1)
    output_dir: str = setting("runs", "folder that run directories are made in")
    total_steps: int = setting(None, "env steps to train for", ge=0)
    dataset: str | None = setting(None, "stored experience to learn from: a file, or minari:NAME")
    offline_updates: int = setting(None, "updates from the dataset alone, before any env step", ge=0)
    algorithm: Any = setting(None, "settings of the algorithm itself")
    model: ModelConfig = setting(None, "the networks")
    data: DataConfig = setting(None, "how the dataset is used")
    env: EnvConfig = setting(None, "the training environments")
    evaluation: EvaluationConfig = setting(None, "test episodes")
    checkpoint: CheckpointConfig = setting(None, "saved states")
    logging: LoggingConfig = setting(None, "what is written and shown")
    runtime: RuntimeConfig = setting(None, "device and speed")

    def __post_init__(self) -> None:
        """Fill what was left out and check every value; frozen, hence object.__setattr__."""
        from rl_training import algorithms  # imports torch, which `import rl_training.config` must not

        found: Any = algorithms.find(self.algo)
        problems: list[str] = []
        for name, spec in specs_of(TrainConfig).items():
            value = getattr(self, name)
            try:
                if name == "algorithm" or name in SECTIONS:
                    cls = SECTIONS.get(name, found.config_class)
                    value = _section(name, cls, value, found, problems)
                else:
                    if value is None and name in LENGTHS:
                        value = found.defaults.get(name, LENGTHS[name])
                    value = convert(name, value, spec)
            except ConfigError as error:
                problems.append(str(error))
            object.__setattr__(self, name, value)
        if problems:
            raise joined(problems)
        object.__setattr__(self, "algo", found.name)


def joined(problems: list[str]) -> ConfigError:
    """Every problem in one error, one per line."""
    return ConfigError(problems[0], "\n".join(problems[1:]))


def _section(name: str, cls: Any, value: Any, algorithm: Any, problems: list[str]) -> Any:
    """The section as given, checked; without one, its defaults for this algorithm."""
    if value is None:
        value = cls(**section_values(algorithm.defaults, name))
    if value.__class__ is not cls:
        raise ConfigError(f"{name} is of type {type(value).__name__}; {algorithm.name} takes {cls.__name__}(...)")
    changes = {}
    for key, spec in specs_of(cls).items():
        try:
            changes[key] = convert(f"{name}.{key}", getattr(value, key), spec)
        except ConfigError as error:
            problems.append(str(error))
    return dataclasses.replace(value, **changes)


def section_values(dotted: Mapping[str, Any], section: str) -> dict[str, Any]:
    """{"env.num_envs": 8, "model.hidden": ...} -> {"num_envs": 8} for section "env"."""
    prefix = section + "."
    return {key.removeprefix(prefix): value for key, value in dotted.items() if key.startswith(prefix)}
