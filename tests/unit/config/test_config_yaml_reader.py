"""Reading YAML: values, places, and a message for every unusable file."""

from __future__ import annotations

from pathlib import Path

import pytest

from rl_training.config import yaml_reader
from rl_training.config.yaml_reader import read_yaml
from rl_training.errors import ConfigError


def _file(text: str | bytes) -> Path:
    path = Path("my.yaml")
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_values_and_places() -> None:
    document = read_yaml(
        _file("algo: ppo\nalgorithm:\n  gamma: 1e-4\n  name: on\n  list: [1, 'a', no]\nquoted: \"64\"\n")
    )
    assert document.values == {
        "algo": "ppo",
        "algorithm": {"gamma": 1e-4, "name": "on", "list": [1, "a", "no"]},
        "quoted": "64",
    }
    assert document.positions == {
        ("algo",): "my.yaml:1:1",
        ("algorithm",): "my.yaml:2:1",
        ("algorithm", "gamma"): "my.yaml:3:3",
        ("algorithm", "name"): "my.yaml:4:3",
        ("algorithm", "list"): "my.yaml:5:3",
        ("quoted",): "my.yaml:6:1",
    }
    assert document.problems == []


def test_byte_order_mark_comments_and_an_empty_file() -> None:
    assert read_yaml(_file(b"\xef\xbb\xbfalgo: ppo # x\n")).values == {"algo": "ppo"}
    assert read_yaml(_file("# nothing\n")).values == {}


def test_aliases_of_reasonable_size_are_expanded() -> None:
    assert read_yaml(_file("a: &x [1, 2]\nb: *x\n")).values == {"a": [1, 2], "b": [1, 2]}


def test_every_duplicate_key_is_reported_and_the_first_value_stands() -> None:
    document = read_yaml(_file("seed: 1\nenv:\n  num_envs: 2\n  num_envs: 3\nseed: 4\n1: x\n"))
    assert document.problems == [
        "my.yaml:4:3 key 'num_envs' stands twice (first at my.yaml:3:3)",
        "my.yaml:5:1 key 'seed' stands twice (first at my.yaml:1:1)",
        "my.yaml:6:1 key 1 is not text",
    ]
    assert document.values == {"seed": 1, "env": {"num_envs": 2}}


BOMB = "a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi")
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: b: c\n", "my.yaml:1:5 is not usable YAML: mapping values are not allowed here"),
        ("a: [1\n", "my.yaml:2:1 is not usable YAML: expected ',' or ']', but got '<stream end>'"),
        ("a: *x\n", "my.yaml:1:4 is not usable YAML: found undefined alias 'x'"),
        ("a: 1\n---\nb: 2\n", "my.yaml:2:1 is not usable YAML: but found another document"),
        ("a: \x00\n", "my.yaml is not usable YAML: unacceptable character #x0000: special characters are not allowed"),
        ("- 1\n- 2\n", "my.yaml:1:1 expected settings, one `key: value` per line."),
        ("just words\n", "my.yaml:1:1 expected settings, one `key: value` per line."),
        ("a: !!python/object/apply:os.system [ls]\n", "my.yaml:1:4 is not usable YAML: tags (!...) are not allowed"),
        ("!!map {a: 1}\n", "my.yaml:1:1 is not usable YAML: tags (!...) are not allowed"),
        ("a: !!str 5\n", "my.yaml:1:4 is not usable YAML: tags (!...) are not allowed"),
        ("a: " + "[" * 500, "my.yaml:1:23 is not usable YAML: nested too deeply"),
        (BOMB, "my.yaml:1:16 is not usable YAML: more than 20,000 values, counting those of aliases"),
        (
            "a: [" + "x, " * 20_000 + "]",
            "my.yaml:1:59996 is not usable YAML: more than 20,000 values, counting those of aliases",
        ),
        ("a: &x [*x]\n", "my.yaml:1:4 is not usable YAML: an alias contains itself"),
        (b"a: \xff\n", "my.yaml is not UTF-8 text (byte 3)."),
        ("#" * (1 << 20) + "\n", "my.yaml is larger than 1 MiB; a configuration is at most that."),
    ],
    ids=lambda value: str(value)[:20],
)
def test_an_unusable_file_says_where_and_why(text: str | bytes, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_yaml(_file(text))
    assert str(error.value) == message


def test_missing_file_suggests_a_near_name() -> None:
    _file("algo: ppo\n")
    with pytest.raises(ConfigError) as error:
        read_yaml(Path("my.yml"))
    assert str(error.value) == "my.yml does not exist.\nDid you mean my.yaml?"
    with pytest.raises(ConfigError) as error:
        read_yaml(Path("no/such/folder.yaml"))
    assert str(error.value) == "no/such/folder.yaml does not exist."


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        read_yaml(tmp_path)
    assert str(error.value) == f"{tmp_path} is not a file."


def test_no_constructor_of_pyyaml_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError("a YAML constructor ran")

    monkeypatch.setattr(yaml_reader.yaml.SafeLoader, "construct_object", refuse)
    assert read_yaml(_file("a: {b: [1, 2.5, true]}\n")).values == {"a": {"b": [1, 2.5, True]}}
