"""`main`: finds the command, runs it, and turns what went wrong into a message and an exit code.

Nothing heavy is imported here: a command's module is loaded once it has been asked for, so `--help` answers at once.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
import traceback
from collections.abc import Sequence

from rl_training.errors import UserError, did_you_mean

# command -> (module in this package, what it does)
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "train PPO on CartPole-v1 in under a minute, and show how well it plays"),
    "train": ("train", "train an algorithm on an environment: train ppo CartPole-v1"),
    "eval": ("evaluate", "play test episodes with a trained agent"),
    "resume": ("resume", "continue an interrupted run, bit for bit"),
    "data": ("data", "record, inspect, mend and convert stored experience"),
    "report": ("report", "write report.html and curve.svg of a run"),
    "rank": ("rank", "order the checkpoints of a run by what stored data tell"),
    "list": ("listing", "list envs, algos, presets or runs"),
    "check-env": ("check_env", "check that an environment keeps the Gymnasium contract"),
    "config": ("config", "show or validate settings, and where each came from"),
    "doctor": ("doctor", "what is installed, what is missing, and the command that mends it"),
}
INTERRUPT_EXIT, PIPE_EXIT = 130, 141  # what shells report for SIGINT and SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; `argv` is `sys.argv[1:]` when left out."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    _replace_what_cannot_be_printed()
    try:
        code = _dispatch([word for word in words if word != "--debug"])
        sys.stdout.flush()
        return code
    except KeyboardInterrupt as stop:
        if hasattr(stop, "exit_code"):  # a run that saved its state before it left
            print(stop, file=sys.stderr)
            return int(stop.exit_code)
        print("stopped", file=sys.stderr)
        return INTERRUPT_EXIT
    except BrokenPipeError:
        # The reader (head, less) has left. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_EXIT
    except SystemExit as request:  # argparse after --help
        return int(request.code or 0)
    except Exception as error:
        return _report(error, debug)


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(help_text())
        return 0
    if words[0] == "--version":
        from rl_training import __version__

        print(f"rl-training {__version__}")
        return 0
    command, *arguments = words
    if command not in COMMANDS:
        hint = did_you_mean(command, COMMANDS) or f"Commands: {', '.join(COMMANDS)}."
        raise UserError(f"Unknown command '{command}'. {hint}", fix="Help: rl-training --help")
    code: int = importlib.import_module(f"rl_training.cli.{COMMANDS[command][0]}").run(arguments)
    return code


def help_text() -> str:
    """The page of `rl-training --help`."""
    lines = [
        "usage: rl-training COMMAND ...",
        "",
        *(f"  {name:<10} {summary}" for name, (_, summary) in COMMANDS.items()),
        "",
        "  rl-training COMMAND --help tells more, --version the version; --debug shows the traceback of an error.",
    ]
    return "\n".join(lines)


def _report(error: Exception, debug: bool) -> int:
    """Print an error the user can act on; anything else is a bug of ours and keeps its traceback."""
    if not isinstance(error, UserError):
        raise error
    if debug:
        traceback.print_exception(error)
    else:
        print(error, file=sys.stderr)
    return error.exit_code


def _replace_what_cannot_be_printed() -> None:
    """A terminal without ± or ━ shows ? instead of ending a run with UnicodeEncodeError."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
