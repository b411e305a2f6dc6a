"""TrainConfig in Python: complete from three arguments, checked, frozen."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest_algorithms import PPOConfig, SACConfig

from rl_training.config import EnvConfig, ModelConfig, TrainConfig, specs_of
from rl_training.config.schema import SECTIONS
from rl_training.errors import ConfigError


def test_three_arguments_make_a_complete_config() -> None:
    config = TrainConfig(algo="ppo", env_id="CartPole-v1", seed=7, output_dir="runs")
    assert config.algorithm == PPOConfig()
    assert config.env == EnvConfig(num_envs=8)
    assert config.model == ModelConfig()
    for name, cls in SECTIONS.items():
        assert type(getattr(config, name)) is cls, name


def test_a_given_section_is_taken_as_it_is() -> None:
    config = TrainConfig(algo="sac", env_id="x", model=ModelConfig(dueling=True))
    assert config.model == ModelConfig(hidden=(64, 64), dueling=True)
    assert config.env == EnvConfig()


def test_an_algorithm_may_have_its_own_lengths() -> None:
    offline, online = TrainConfig(algo="td3", env_id="x"), TrainConfig(algo="ppo", env_id="x")
    assert (offline.total_steps, offline.offline_updates) == (0, 500)
    assert (online.total_steps, online.offline_updates) == (100_000, 0)
    assert TrainConfig(algo="td3", env_id="x", total_steps=7).total_steps == 7


def test_values_are_brought_to_their_types() -> None:
    config = TrainConfig(
        algo="PPO", env_id="x", seed=np.int64(3), output_dir=Path("out"), model=ModelConfig(hidden=[8, 8.0])
    )
    assert (config.algo, config.seed, config.output_dir, config.model.hidden) == ("ppo", 3, "out", (8, 8))
    assert (type(config.seed), type(config.model.hidden[1])) == (int, int)


def test_every_wrong_value_is_reported_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        TrainConfig(
            algo="ppo", env_id="x", seed=-1, env=EnvConfig(num_envs=0, backend="snyc"), algorithm=PPOConfig(gamma=1.5)
        )
    assert str(error.value).splitlines() == [
        "seed = -1 is outside 0..4294967295",
        "algorithm.gamma = 1.5 is outside 0..1",
        "env.num_envs = 0 must be at least 1",
        'env.backend = "snyc" is not one of auto, sync, async, native, envpool, ale. Did you mean sync?',
    ]


def test_the_config_of_another_algorithm_is_refused() -> None:
    with pytest.raises(ConfigError) as error:
        TrainConfig(algo="ppo", env_id="x", algorithm=SACConfig())
    assert str(error.value) == "algorithm is of type SACConfig; ppo takes PPOConfig(...)"


def test_replace_keeps_everything_else_and_fields_are_frozen() -> None:
    config = TrainConfig(algo="ppo", env_id="x", env=EnvConfig(kwargs={"a": [1]}))
    changed = dataclasses.replace(config, seed=5)
    assert (changed.seed, changed.env) == (5, config.env)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.seed = 3  # type: ignore[misc]


def test_sections_share_no_mutable_default() -> None:
    first, second = EnvConfig(), EnvConfig()
    first.kwargs["a"] = 1
    assert second.kwargs == {}


def test_sections_are_the_dataclass_fields_and_everything_has_help() -> None:
    specs = specs_of(TrainConfig)
    assert {n: s.hint for n, s in specs.items() if dataclasses.is_dataclass(s.hint)} == SECTIONS
    for cls in (TrainConfig, *SECTIONS.values()):
        assert [n for n, s in specs_of(cls).items() if not s.help] == [], cls


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import rl_training.config, sys; print(sorted({'torch', 'numpy', 'gymnasium', 'rich'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
