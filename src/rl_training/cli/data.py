"""`rl-training data COMMAND ...`: stored experience, from recording it to looking at it."""

from __future__ import annotations

import importlib

from rl_training.errors import ConfigError, did_you_mean

# command -> (module in this package, what it does)
COMMANDS: dict[str, tuple[str, str]] = {
    "record": ("data_record", "let policies act, and store their steps as a dataset"),
    "inspect": ("data_inspect", "what a dataset holds, what is wrong with it, and a repaired copy"),
    "convert": ("data_convert", "between D4RL's files, Minari and our own folders"),
    "suite": ("data_suite", "rebuild our own datasets: random, medium, medium-replay, expert"),
}


def run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        lines = ["usage: rl-training data COMMAND ...", ""]
        lines += [f"  {name:<8} {summary}" for name, (_, summary) in COMMANDS.items()]
        print("\n".join([*lines, "", "  rl-training data COMMAND --help tells more."]))
        return 0
    command, *rest = arguments
    if command not in COMMANDS:
        hint = did_you_mean(command, COMMANDS) or f"Commands: {', '.join(COMMANDS)}."
        raise ConfigError(f"Unknown command 'data {command}'. {hint}", fix="Help: rl-training data --help")
    code: int = importlib.import_module(f"rl_training.cli.{COMMANDS[command][0]}").run(rest)
    return code
