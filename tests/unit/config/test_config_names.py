"""Short names, flags and misspelt names find their setting, and say so when they cannot."""

from __future__ import annotations

import pytest

from rl_training.config import describe_fields, route
from rl_training.config.names import settings_of, unknown_key
from rl_training.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "dotted"),
    [
        ("seed", "seed"),
        ("env_id", "env_id"),
        ("--total-steps", "total_steps"),
        ("checkpoint.every", "checkpoint.every"),
        ("algorithm.learning-rate", "algorithm.learning_rate"),
        ("--algorithm.learning-rate", "algorithm.learning_rate"),
        ("algorithm_gamma", "algorithm.gamma"),
        ("learning_rate", "algorithm.learning_rate"),
        ("--gae-lambda", "algorithm.gae_lambda"),
        ("num_envs", "env.num_envs"),
        ("hidden", "model.hidden"),
        ("device", "runtime.device"),
        ("env_backend", "env.backend"),
        ("checkpoint_every", "checkpoint.every"),
        ("--eval-every", "evaluation.every"),
        ("eval.every", "evaluation.every"),
        ("evaluation_deterministic", "evaluation.deterministic"),
        ("log_std_init", "model.log_std_init"),
    ],
)
def test_names_that_find_their_setting(name: str, dotted: str) -> None:
    assert route(name, "ppo") == dotted


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("learning_rat", "unknown setting 'learning_rat' for ppo. Did you mean learning_rate?"),
        ("--learning-rat", "unknown setting '--learning-rat' for ppo. Did you mean --learning-rate?"),
        ("--num-env", "unknown setting '--num-env' for ppo. Did you mean --num-envs?"),
        ("checkpoint.evry", "unknown setting 'checkpoint.evry' for ppo. Did you mean checkpoint.every?"),
        ("checkpoint_evry", "unknown setting 'checkpoint_evry' for ppo. Did you mean checkpoint_every?"),
        ("zzzz", "unknown setting 'zzzz' for ppo."),
        ("tau", "'tau' belongs to sac, td3; ppo has no such setting"),
        ("--tau", "'--tau' belongs to sac, td3; ppo has no such setting"),
        ("algorithm.tau", "'algorithm.tau' belongs to sac, td3; ppo has no such setting"),
        ("every", "'every' could be evaluation.every or checkpoint.every or logging.every: write one of these."),
        (
            "--deterministic",
            "'--deterministic' could be --evaluation.deterministic or --runtime.deterministic: write one of these.",
        ),
        ("checkpoint", "'checkpoint' is a section. Set one of checkpoint.every, checkpoint.keep."),
        ("\x1b[31m", "unknown setting '\\x1b[31m' for ppo."),
        ("", "unknown setting '' for ppo."),
    ],
)
def test_names_that_do_not(name: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        route(name, "ppo")
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            ("algorithm", "learning_rat"),
            "unknown key 'learning_rat' under algorithm (ppo). Did you mean learning_rate?",
        ),
        (("algorithm", "tau"), "'tau' belongs to sac, td3; ppo has no such setting"),
        (("tau",), "'tau' belongs to sac, td3; ppo has no such setting"),
        (("algorithm", "num_envs"), "unknown key 'num_envs' under algorithm (ppo). It belongs under env."),
        (("env", "seed"), "unknown key 'seed' under env. It belongs at the top level."),
        (("gamma",), "unknown key 'gamma'. It belongs under algorithm."),
        (("checkpoint.every",), "unknown key 'checkpoint.every'. It belongs under checkpoint."),
        (("sede",), "unknown key 'sede'. Did you mean seed?"),
        (("modle",), "unknown key 'modle'. Did you mean model?"),
        (("env", "zzz"), "unknown key 'zzz' under env. Allowed: num_envs, backend, kwargs, step_timeout."),
    ],
)
def test_unknown_keys_of_a_file(path: tuple[str, ...], message: str) -> None:
    assert unknown_key(path, "ppo") == message


def test_every_name_that_is_listed_routes_to_itself() -> None:
    for algo in ("ppo", "sac"):
        for dotted in settings_of(algo):
            assert route(dotted, algo) == dotted
            assert route("--" + dotted.replace("_", "-"), algo) == dotted


def test_help_lines_hold_type_default_of_the_algorithm_and_text() -> None:
    lines = {line.key: line for line in describe_fields("sac")}
    assert lines["env_id"][1:] == ("text", "", "environment to learn, as gymnasium.make takes it")
    assert lines["model.hidden"][1:] == ("list of int", "[256, 256]", "sizes of the hidden layers")
    assert lines["model.activation"][1:3] == ("tanh|relu|silu|gelu|elu", "relu")
    assert lines["algorithm.entropy"][1:] == ("float or auto", "auto", "temperature")
    assert lines["total_steps"][1:3] == ("int", "100000")
    assert lines["dataset"][1:3] == ("text or none", "null")
    assert lines["env.kwargs"][1:3] == ("key=value,...", "{}")
    assert lines["logging.tensorboard"][1:3] == ("true/false", "true")


def test_every_setting_has_help() -> None:
    assert [line.key for line in describe_fields("ppo") if not line.help] == []
