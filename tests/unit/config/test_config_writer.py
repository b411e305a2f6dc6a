"""What is written reads back to an equal config; diff names what changed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest_algorithms import PPOConfig, SACConfig
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rl_training.config import (
    CheckpointConfig,
    EnvConfig,
    ModelConfig,
    RuntimeConfig,
    TrainConfig,
    diff,
    dump_yaml,
    load_config,
    to_dict,
)

TRAPS = [
    "on",
    "yes",
    "null",
    "~",
    "1e-4",
    "012",
    "0x1F",
    "1_0",
    ".inf",
    "true",
    "<<",
    "=",
    "!x",
    "&a",
    "*a",
    "%x",
    "@x",
    "`",
    "'",
    '"',
    "\\",
    "12:30",
    "2024-01-01",
    "?",
    "#",
    "-",
    "a:",
]
TRAPS += ["a: b", "- x", "a # b", "\x85", "\u2028", "\ud800", "\ufeff", "\x00", " a ", "a\nb", "\n", "é"]
TEXT = st.text(max_size=20) | st.sampled_from(TRAPS)
NUMBER = st.floats(allow_nan=False)
INTEGER = st.integers(-(2**63) + 1, 2**63 - 1)
PLAIN = st.recursive(
    st.none() | st.booleans() | INTEGER | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
CONFIGS = st.builds(
    TrainConfig,
    algo=st.just("ppo"),
    env_id=TEXT,
    seed=st.integers(0, 2**32 - 1),
    output_dir=TEXT,
    total_steps=st.integers(0, 2**63 - 1),
    dataset=st.none() | TEXT,
    algorithm=st.builds(
        PPOConfig,
        learning_rate=st.floats(0, exclude_min=True, allow_nan=False),
        gamma=st.floats(0, 1),
        target_kl=st.none() | st.floats(0, exclude_min=True, allow_nan=False),
        betas=st.tuples(st.floats(0, 1, exclude_max=True), st.floats(0, 1, exclude_max=True)),
    ),
    model=st.builds(
        ModelConfig,
        hidden=st.lists(st.integers(1, 2**40), max_size=4).map(tuple),
        activation=st.sampled_from(["tanh", "gelu"]),
        layer_norm=st.booleans(),
        log_std_init=NUMBER,
    ),
    env=st.builds(EnvConfig, kwargs=st.dictionaries(TEXT, PLAIN, max_size=4)),
    runtime=st.builds(RuntimeConfig, device=TEXT),
)


@given(config=CONFIGS)
@settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_what_is_written_reads_back_equal(tmp_path: Path, config: TrainConfig) -> None:
    text = dump_yaml(config)
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8", newline="")
    assert load_config(path) == config, text


@given(value=PLAIN)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_other_yaml_readers_see_the_same_text(value: Any) -> None:
    """Text that YAML 1.1 would take for a bool, date or number is quoted, so safe_load agrees about every string."""
    config = TrainConfig(algo="ppo", env_id="x", env=EnvConfig(kwargs={"value": value}))
    assert yaml.safe_load(dump_yaml(config))["env"]["kwargs"]["value"] == config.env.kwargs["value"]


def test_the_file_is_complete_and_readable() -> None:
    text = dump_yaml(TrainConfig(algo="sac", env_id="Pendulum-v1", algorithm=SACConfig(learning_rate=1e-4)))
    assert text.startswith(
        "algo: sac\nenv_id: Pendulum-v1\nseed: 0\noutput_dir: runs\ntotal_steps: 100000\ndataset: null\n"
        "offline_updates: 0\nalgorithm:\n  learning_rate: 0.0001\n  tau: 0.005\n  entropy: auto\n"
        "model:\n  hidden: [256, 256]\n  activation: relu\n"
    )
    assert text.endswith(
        "runtime:\n  device: auto\n  threads: 1\n  accelerate: auto\n  matmul: float32\n  deterministic: false\n"
    )


def test_to_dict_holds_plain_values_only_and_shares_nothing() -> None:
    config = TrainConfig(algo="ppo", env_id="x", env=EnvConfig(kwargs={"a": [1]}))
    tree = to_dict(config)
    tree["env"]["kwargs"]["a"].append(2)
    assert config.env.kwargs == {"a": [1]}
    assert tree["model"]["hidden"] == [64, 64]
    assert tree["algorithm"]["betas"] == [0.9, 0.999]


def test_infinity_is_written_and_read() -> None:
    config = TrainConfig(algo="ppo", env_id="x", env=EnvConfig(step_timeout=math.inf))
    Path("config.yaml").write_text(dump_yaml(config))
    assert load_config("config.yaml").env.step_timeout == math.inf


def test_diff_names_what_changed() -> None:
    old = TrainConfig(algo="ppo", env_id="x")
    new = TrainConfig(algo="ppo", env_id="x", seed=3, checkpoint=CheckpointConfig(every=5), env=EnvConfig(num_envs=8))
    assert diff(old, old) == []
    assert diff(old, new) == [("seed", 0, 3), ("checkpoint.every", 10_000, 5)]


def test_diff_of_two_algorithms_shows_what_only_one_has() -> None:
    changes = {key: (old, new) for key, old, new in diff(
        TrainConfig(algo="ppo", env_id="x"), TrainConfig(algo="td3", env_id="x")
    )}  # fmt: skip
    assert changes["algo"] == ("ppo", "td3")
    assert changes["algorithm.gamma"] == (0.99, None)
    assert changes["algorithm.tau"] == (None, 0.005)
    assert "algorithm.learning_rate" not in changes


@pytest.mark.parametrize("value", ["1e-4", "on", "012", "inf", "2024-01-01", "null", ""])
def test_text_that_looks_like_something_else_is_quoted(value: str) -> None:
    text = dump_yaml(TrainConfig(algo="ppo", env_id=value))
    assert f"env_id: '{value}'\n" in text
