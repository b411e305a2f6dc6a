"""Help answers at once: nothing heavy is imported for it."""

from __future__ import annotations

import json
import resource
import subprocess
import sys

import pytest

HEAVY = ("torch", "gymnasium", "numpy", "numba", "rich", "yaml", "safetensors")


@pytest.mark.parametrize(
    "words", [["--help"], ["train", "--help"], ["--version"], ["eval", "--help"], ["data", "record", "--help"], ["list", "algos"]]
)
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    code = (
        "import json, sys; from rl_training.cli import main; code = main(sys.argv[1:]); "
        "print(json.dumps([code, [name for name in json.loads(sys.stdin.read()) if name in sys.modules]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], input=json.dumps(HEAVY), capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == [0, []], done.stdout


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"]])
def test_help_takes_little_cpu(words: list[str]) -> None:
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "rl_training.cli", *words], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    print(f"CPU seconds of {words}: {seconds}")
    assert min(seconds) < 0.3, f"CPU seconds: {seconds}"


@pytest.mark.parametrize("module", ["rl_training", "rl_training.cli"])
def test_both_modules_are_the_program(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "trian"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr == "Unknown command 'trian'. Did you mean train?\nHelp: rl-training --help\n"


def test_a_reader_that_leaves_ends_a_command_quietly() -> None:
    program = [sys.executable, "-m", "rl_training.cli", "train", "ppo", "--help"]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, "")


def test_load_config_is_found_here() -> None:
    import rl_training.cli
    import rl_training.config

    assert rl_training.cli.load_config is rl_training.config.load_config
