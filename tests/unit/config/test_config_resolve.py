"""Layers: which value wins, where it came from, and every mistake reported at once."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from rl_training.config import (
    CheckpointConfig,
    Entry,
    Layer,
    ModelConfig,
    TrainConfig,
    find_preset,
    from_command_line,
    from_keywords,
    load_config,
    resolve,
)
from rl_training.errors import ConfigError


def _file(text: str, name: str = "my.yaml") -> Path:
    path = Path(name)
    path.write_text(text)
    return path


def _message(call: Any, *args: Any, **keywords: Any) -> str:
    with pytest.raises(ConfigError) as error:
        call(*args, **keywords)
    return str(error.value)


PRESET = """algo: ppo
env_id: CartPole-v1
total_steps: 40_000
algorithm: {gamma: 0.98, batch_size: 256}
env: {num_envs: 4}
contract: {return: 475, seeds: [1, 2]}
"""


def test_later_layers_win_and_origins_tell_which(presets: Path) -> None:
    (presets / "ppo" / "cartpole.yaml").write_text(PRESET)
    file = _file("algorithm:\n  batch_size: 128\n  num_steps: 32\n")
    found = from_command_line("ppo", "CartPole-v1", ["--num-steps", "16", "--eval-every=500"], file)
    origin = {
        "algo": "command line",
        "env_id": "command line",
        "seed": "default",
        "env.num_envs": "preset ppo/cartpole",
        "total_steps": "preset ppo/cartpole",
        "algorithm.gamma": "preset ppo/cartpole",
        "algorithm.batch_size": "my.yaml:2:3",
        "algorithm.num_steps": "--num-steps",
        "evaluation.every": "--eval-every",
    }
    assert {key: found.origin[key] for key in origin} == origin
    config = found.config
    assert (config.env.num_envs, config.total_steps, config.algorithm.gamma) == (4, 40_000, 0.98)
    assert (config.algorithm.batch_size, config.algorithm.num_steps, config.evaluation.every) == (128, 16, 500)


def test_defaults_of_the_algorithm_lie_above_general_defaults() -> None:
    found = from_command_line("sac", "Pendulum-v1")
    assert (found.config.model.hidden, found.origin["model.hidden"]) == ((256, 256), "sac default")
    assert (found.config.model.init, found.origin["model.init"]) == ("orthogonal", "default")
    assert set(found.origin) >= {"seed", "algorithm.tau", "env.kwargs", "runtime.threads"}


def test_keyword_origin_and_plain_layers() -> None:
    layer = Layer({"algo": Entry("ppo", "keyword", "algo"), "env_id": Entry("x", "keyword", "env_id")})
    found = resolve([layer, Layer({"seed": Entry(3, "keyword", "seed")})])
    assert (found.config.seed, found.origin["seed"], found.origin["env.num_envs"]) == (3, "keyword", "ppo default")


def test_python_the_file_and_the_command_line_agree() -> None:
    file = _file(
        "algo: ppo\nenv_id: CartPole-v1\nseed: 7\nalgorithm: {learning_rate: 1e-4}\nmodel: {hidden: [32, 32]}\n"
        "env: {kwargs: {g: 9.8}}\n"
    )
    flags = ["--seed", "7", "--learning-rate", "1e-4", "--hidden", "32,32", "--env.kwargs", "g=9.8"]
    keywords = {"seed": 7, "learning_rate": 1e-4, "hidden": (32, 32), "env_kwargs": {"g": 9.8}}
    configs = [
        load_config(file),
        from_command_line(None, None, [], file).config,
        from_command_line("ppo", "CartPole-v1", flags).config,
        from_keywords("ppo", env_id="CartPole-v1", **keywords),
    ]
    for config in configs[1:]:
        assert config == configs[0]


def test_keywords_take_whole_sections_and_dotted_names() -> None:
    config = from_keywords(
        "PPO", env_id="x", model=ModelConfig(hidden=(8,)), checkpoint={"keep": 9}, **{"logging.every": 5}
    )
    assert (config.algo, config.model.hidden, config.checkpoint, config.logging.every) == (
        "ppo",
        (8,),
        CheckpointConfig(keep=9),
        5,
    )
    for algo in ("ppo", "sac", "td3"):
        assert from_keywords(algo, env_id="x") == TrainConfig(algo=algo, env_id="x")


def test_flags_without_a_value_negative_numbers_and_the_last_one_wins() -> None:
    config = from_command_line(
        "ppo", "x", ["--layer-norm", "--log_std_init", "-0.5", "--tensorboard=false", "--seed", "1", "--seed", "1e3"]
    ).config
    assert config.model.layer_norm is True
    assert (config.model.log_std_init, config.logging.tensorboard, config.seed) == (-0.5, False, 1000)


def test_flags_may_name_algorithm_and_environment() -> None:
    config = from_command_line(None, None, ["--algo", "sac", "--env_id=Pendulum-v1"]).config
    assert (config.algo, config.env_id, config.model.hidden) == ("sac", "Pendulum-v1", (256, 256))


def test_overrides_of_load_config_use_keyword_names() -> None:
    file = _file("algo: ppo\nenv_id: x\nseed: 1\n")
    config = load_config(file, {"seed": 2, "eval_every": 7, "env_id": "y"})
    assert (config.seed, config.evaluation.every, config.env_id) == (2, 7, "y")
    assert load_config(file, {"algo": "sac"}).algorithm.tau == 0.005


def test_presets_are_found_by_environment_and_the_shortest_name_wins(presets: Path) -> None:
    assert find_preset("ppo", "CartPole-v1") is None
    (presets / "ppo" / "cartpole-fast.yaml").write_text(PRESET.replace("0.98", "0.5"))
    (presets / "ppo" / "cartpole.yaml").write_text(PRESET)
    assert find_preset("ppo", "CartPole-v1") == presets / "ppo" / "cartpole.yaml"
    assert find_preset("ppo", "CartPole-v0") is None
    assert find_preset("sac", "CartPole-v1") is None


def test_a_preset_as_the_file_stands_alone(presets: Path) -> None:
    (presets / "ppo" / "cartpole.yaml").write_text(PRESET)
    other = presets / "ppo" / "cartpole-short.yaml"
    other.write_text("algo: ppo\nenv_id: CartPole-v1\ntotal_steps: 10\n")
    link = Path("configs")
    link.symlink_to(presets)
    assert load_config(link / "ppo" / "cartpole-short.yaml").algorithm.gamma == 0.99
    assert load_config(link / "ppo" / "cartpole.yaml").algorithm.gamma == 0.98
    assert from_command_line(None, None, [], other).origin["algorithm.gamma"] == "default"


def test_a_file_lies_above_the_preset_unless_it_is_to_be_read_alone(presets: Path) -> None:
    (presets / "ppo" / "cartpole.yaml").write_text(PRESET)
    file = _file("algo: ppo\nenv_id: CartPole-v1\nalgorithm: {gamma: 0.5}\n")
    config = load_config(file)
    assert (config.algorithm.gamma, config.total_steps) == (0.5, 40_000)
    assert load_config(file, preset=False).total_steps == 100_000
    assert from_keywords("ppo", env_id="CartPole-v1").total_steps == 100_000


def test_every_mistake_of_a_file_is_reported_at_once() -> None:
    file = _file(
        """algo: ppo
env_id: CartPole-v1
sede: 3
sede: 4
model:
  hidden: [64, "32"]
algorithm:
  learning_rat: 1e-4
  tau: 0.1
  gamma: 1.5
  batch_size: "64"
env: 5
dataset: 12
"""
    )
    assert _message(load_config, file).splitlines() == [
        "my.yaml:4:1 key 'sede' stands twice (first at my.yaml:3:1)",
        "my.yaml:3:1 unknown key 'sede'. Did you mean seed?",
        "my.yaml:8:3 unknown key 'learning_rat' under algorithm (ppo). Did you mean learning_rate?",
        "my.yaml:9:3 'tau' belongs to sac, td3; ppo has no such setting",
        "my.yaml:12:1 env = 5 is not a mapping of settings",
        'my.yaml:6:3 hidden[1] = "32" is text: write 32',
        "my.yaml:10:3 gamma = 1.5 is outside 0..1",
        'my.yaml:11:3 batch_size = "64" is text: write 64',
        'my.yaml:13:1 dataset = 12 is not text: write "12"',
    ]


def test_the_first_mistake_is_the_headline() -> None:
    with pytest.raises(ConfigError) as error:
        load_config(_file("algo: ppo\nenv_id: x\nalgorithm:\n  learning_rat: 1\n  gamma: 2\n"))
    assert error.value.what == (
        "my.yaml:4:3 unknown key 'learning_rat' under algorithm (ppo). Did you mean learning_rate?"
    )
    assert error.value.why == "my.yaml:5:3 gamma = 2 is outside 0..1"


def test_every_mistake_of_a_command_is_reported_at_once() -> None:
    flags = ["--learning-rat", "3", "--tau=.1", "--gamma", "2", "--hidden", "1,x", "--model", "3", "--seed"]
    file = _file("sede: 1\n")
    fields = ", ".join(f"--model.{field.name.replace('_', '-')}" for field in dataclasses.fields(ModelConfig))
    assert _message(from_command_line, "ppo", "x", flags, file).splitlines() == [
        "my.yaml:1:1 unknown key 'sede'. Did you mean seed?",
        "unknown setting '--learning-rat' for ppo. Did you mean --learning-rate?",
        "'--tau' belongs to sac, td3; ppo has no such setting",
        f"'--model' is a section. Set one of {fields}.",
        "--seed needs a value",
        "--gamma = 2 is outside 0..1",
        '--hidden[1] = "x" is text; expected a whole number',
    ]


def test_every_mistake_of_keywords_is_reported_at_once() -> None:
    message = _message(from_keywords, "ppo", env_id="x", learning_rat=3, seed=None, gamma=2, model={"hiden": 1}, env=5)
    assert message.splitlines() == [
        "unknown setting 'learning_rat' for ppo. Did you mean learning_rate?",
        "unknown key 'hiden' under model. Did you mean hidden?",
        "env = 5 is not a mapping of settings",
        "seed = null is not a whole number",
        "gamma = 2 is outside 0..1",
    ]


def test_a_mistake_that_a_later_layer_hides_is_still_reported() -> None:
    file = _file("algo: ppo\nenv_id: x\nseed: -1\n")
    assert _message(load_config, file, {"seed": 3}) == "my.yaml:3:1 seed = -1 is outside 0..4294967295"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: from_command_line(None, "x"),
            "no algorithm is named: write for example algo: ppo\nKnown algorithms: ppo, sac, td3.",
        ),
        (
            lambda: load_config(_file("env_id: x\n")),
            "my.yaml names no algorithm: add a line such as algo: ppo\nKnown algorithms: ppo, sac, td3.",
        ),
        (
            lambda: load_config(_file("algo: ppo\n")),
            "env_id is missing: name the environment, such as env_id: CartPole-v1",
        ),
        (lambda: from_keywords("ppo"), "env_id is missing: name the environment, such as env_id: CartPole-v1"),
        (lambda: load_config(_file("algo: poo\nenv_id: x\n")), "unknown algorithm 'poo'. Did you mean ppo?"),
        (lambda: load_config(_file("algo: 5\nenv_id: x\n")), 'my.yaml:1:1 algo = 5 is not text: write "5"'),
        (lambda: from_command_line("ppo", "x", ["seed", "3"]), '"seed" is not a setting: write --name value'),
        (lambda: from_command_line("ppo", "x", ["--seed", "3", "4"]), '"4" is not a setting: write --name value'),
        (lambda: from_command_line("ppo", "x", ["--seed="]), "--seed = null is not a whole number"),
    ],
)
def test_what_else_can_be_wrong(call: Any, message: str) -> None:
    assert _message(call) == message


def test_a_mistake_in_the_defaults_of_an_algorithm_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from rl_training import algorithms

    monkeypatch.setattr(algorithms.find("ppo"), "defaults", {"env.num_envs": 0})
    assert _message(from_keywords, "ppo", env_id="x") == "ppo default env.num_envs = 0 must be at least 1"
