"""Hostile files and flags: every one is refused as ConfigError or kept as harmless text, and nothing runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rl_training.config import dump_yaml, from_command_line, load_config
from rl_training.errors import ConfigError

HEAD = "algo: ppo\nenv_id: x\n"
MARK = "touched-by-attack"
OBJECTS = [
    f"!!python/object/apply:os.system ['touch {MARK}']",
    f"!!python/object/apply:subprocess.check_output [[touch, {MARK}]]",
    f"!!python/object/new:os.system [touch {MARK}]",
    "!!python/object:__main__.X {}",
    "!!python/name:os.system",
    "!!python/module:os",
    "!!python/tuple [1, 2]",
    "!!python/str a",
    "!<tag:yaml.org,2002:python/name:os.system> x",
    "!!binary aGVsbG8=",
    "!!set {a, b}",
    "!!timestamp 2024-01-01",
    "!include /etc/passwd",
    "!env HOME",
    "! 5",
    "!!int '5'",
]
BOMB = "k0: &k0 [x, x]\n" + "".join(f"k{i}: &k{i} [{f'*k{i - 1},' * 9}]\n" for i in range(1, 10))
STRUCTURES = [
    HEAD + "seed: 1\nseed: 2\n",
    HEAD + "env: {num_envs: 1, num_envs: 2}\n",
    HEAD + "env: {kwargs: {a: 1, a: 2}}\n",
    HEAD + "algo: sac\n",
    HEAD + BOMB,
    HEAD + "env:\n  kwargs: &x\n    self: *x\n",
    HEAD + "env: &x\n  kwargs: {a: 1}\nmodel: *x\n",
    HEAD + "<<: {seed: 3}\n",
    HEAD + "base: &b {num_envs: 3}\nenv:\n  <<: *b\n",
    HEAD + "env: {kwargs: " + "[" * 100_000 + "\n",
    HEAD + "env: {kwargs: " + "{a: " * 100_000 + "\n",
    HEAD + "? [a, b]\n: 1\n",
    HEAD + "{a: b}: 1\n",
    HEAD + "null: 1\n",
    HEAD + "---\nseed: 1\n",
    "%YAML 9.9\n---\n" + HEAD,
    "%TAG ! tag:yaml.org,2002:python/\n---\nalgo: !name:os.system x\n",
    HEAD + "__class__: x\n",
    HEAD + "__post_init__: x\n",
    HEAD + "algorithm: {__dict__: {}}\n",
    HEAD + "algorithm: {__class__: os.system}\n",
    HEAD + "env: [kwargs]\n",
    HEAD + "seed: 1e400\n",
    HEAD + "seed: " + "9" * 10_000 + "\n",
    HEAD + "seed: .nan\n",
    HEAD + "seed: .inf\n",
    HEAD + "total_steps: 1e300\n",
    HEAD + "algorithm: {gamma: .nan}\n",
    HEAD + "model: {hidden: [[64]]}\n",
    HEAD + "model: {hidden: {a: 1}}\n",
    HEAD + "model: {activation: __import__('os').system}\n",
    HEAD + "seed: \x07\n",
    HEAD + "seed:\t- 1\n\t- 2\n",
    "algo: [ppo]\nenv_id: x\n",
    "algo: ../../ppo\nenv_id: x\n",
]  # fmt: skip
FLAGS = [
    ["--__class__", "x"],
    ["--algorithm.__class__", "x"],
    ["--algorithm", "!!python/name:os.system"],
    ["--seed", "!!python/object/apply:os.system [ls]"],
    ["--seed", "__import__('os').system('ls')"],
    ["--seed", "9" * 10_000],
    ["--seed", "1e400"],
    ["--seed", "nan"],
    ["--seed", "٣"],
    ["--seed", "0x10"],
    ["--gamma", "1/0"],
    ["--hidden", "64;64"],
    ["--hidden", ",".join(["1"] * 5) + ",,"],
    ["--hidden", "-1"],
    ["--num-envs", "0"],
    ["--env-kwargs", "a"],
    ["--", "seed"],
    ["--=3"],
    ["--seed", "3", "; rm -rf x"],
    ["--tensorboard", "1"],
    ["--" + "a" * 100_000, "1"],
    ["--config.seed", "3"],
    ["--eval..every", "3"],
]


@pytest.fixture(autouse=True)
def nothing_ran() -> object:
    before = set(os.environ)
    yield
    assert not Path(MARK).exists(), "a command ran"
    assert set(os.environ) == before


def _refused(call: object, *args: object) -> str:
    with pytest.raises(ConfigError) as error:
        call(*args)  # type: ignore[operator]
    message = str(error.value)
    assert all(ch.isprintable() or ch == "\n" for ch in message), repr(message)
    assert max(len(line) for line in message.splitlines()) < 400, len(message)
    return message


@pytest.mark.parametrize("value", OBJECTS)
def test_no_tag_builds_anything(value: str) -> None:
    Path("my.yaml").write_text(HEAD + f"env:\n  kwargs:\n    a: {value}\n")
    assert "tags (!...) are not allowed" in _refused(load_config, Path("my.yaml"))


@pytest.mark.parametrize("text", STRUCTURES, ids=range(len(STRUCTURES)))
def test_hostile_files_are_refused(text: str) -> None:
    Path("my.yaml").write_text(text)
    _refused(load_config, Path("my.yaml"))


@pytest.mark.parametrize("flags", FLAGS, ids=range(len(FLAGS)))
def test_hostile_flags_are_refused(flags: list[str]) -> None:
    _refused(from_command_line, "ppo", "x", flags)


@pytest.mark.parametrize(
    "text",
    ["$(touch touched-by-attack)", "`id`", "${HOME}", "{{ 7*7 }}", "%s%n", "../../etc/passwd", "a\x1b[2Jb", "!!x"],
)
def test_text_stays_text(text: str) -> None:
    config = from_command_line("ppo", text, ["--env-kwargs", f"a={text}"]).config
    assert (config.env_id, config.env.kwargs) == (text, {"a": text})
    Path("copy.yaml").write_text(dump_yaml(config))
    assert load_config("copy.yaml") == config


def test_devices_are_not_read() -> None:
    assert _refused(load_config, Path("/dev/zero")) == "/dev/zero is not a file."
