"""SIGTERM and Ctrl-C leave a checkpoint, the right exit code and a run that goes on as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import SOURCE, Job, Reference, Runner
from outcome import Outcome, differences, metrics, read_outcome, run_inside

ENVIRON = os.environ | {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}


def without_extra_checkpoint(outcome: Outcome) -> Outcome:
    """A signal adds a checkpoint, so other ones are kept than without it."""
    return {key: value for key, value in outcome.items() if key != "checkpoints kept"}


def signalled(run: Runner, unkilled: Reference, workspace: Path, name: str) -> Job:
    """Send the signal at a random moment between the first checkpoint and the end; returns the job and how it ended."""
    rng = random.Random(name)
    for attempt in range(20):
        folder = workspace / f"{unkilled.scenario}-{name}-{attempt}"
        folder.mkdir()
        job = {"action": "train", "scenario": unkilled.scenario, "folder": str(folder)}
        answer = run(job | unkilled.draw(rng, aimed=False, attempt=attempt).as_job(name))
        if answer["exit"]:
            return job | answer
        # The run had ended before the signal came.
    raise AssertionError(f"{name} never came while {unkilled.scenario} was training")


@pytest.mark.parametrize(("name", "code"), [("term", 143), ("int", 130)])
@pytest.mark.parametrize("scenario", ["ppo", "dqn", "td3_bc"])
def test_a_stopped_run_can_go_on(
    scenario: str, name: str, code: int, run: Runner, reference: Callable[[str], Reference], workspace: Path
) -> None:
    unkilled = reference(scenario)
    stopped = signalled(run, unkilled, workspace, name)
    folder = Path(stopped["folder"])
    info = json.loads((run_inside(folder) / "run.json").read_text())
    assert (stopped["exit"], info["status"], info["exit_code"]) == (code, "interrupted", code), stopped["log"]
    newest = max(path.name for path in (run_inside(folder) / "checkpoints").glob("step_*"))
    assert int(newest[5:14]) == info["step"], (newest, info)

    answer = run({"action": "resume", "scenario": scenario, "folder": str(folder)})
    assert answer["exit"] == 0, answer["log"]
    found = differences(without_extra_checkpoint(unkilled.outcome), without_extra_checkpoint(read_outcome(folder)))
    assert not found, "\n".join(found)


def test_sigusr1_saves_and_goes_on(run: Runner, reference: Callable[[str], Reference], workspace: Path) -> None:
    """A signal that comes inside a checkpoint asks for another one, which the next tick writes."""
    unkilled, folder = reference("ppo"), workspace / "usr1"
    folder.mkdir()
    middle = unkilled.first_checkpoint + (len(unkilled.trace) - unkilled.first_checkpoint) // 2
    inside = next(number for number in range(middle, len(unkilled.trace)) if unkilled.trace[number - 1][2])
    job = {"action": "train", "scenario": "ppo", "folder": str(folder), "settings": {"keep": 100}}
    answer = run(job | {"raise": ["usr1", inside]})
    assert answer["exit"] == 0, answer["log"]
    steps = [int(path.name[5:]) for path in (run_inside(folder) / "checkpoints").glob("step_*")]
    assert [step for step in steps if step % 128], f"the signal added no checkpoint to {sorted(steps)}"
    assert metrics(run_inside(folder)) == metrics(run_inside(workspace / "reference-ppo"))


def test_a_second_signal_ends_the_process_at_once() -> None:
    program = (
        "import os, signal, time\n"
        "from rl_training.experiment.signals import SignalWatch\n"
        "with SignalWatch() as watch:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    print('first', watch.stop, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(0.1)\n"
        "    print('still here', flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], env=ENVIRON, text=True, capture_output=True)
    assert (done.returncode, done.stdout) == (130, "first 2\n"), done


def test_the_command_line_leaves_with_143_and_the_command_to_go_on(tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "rl_training.cli", "train", "ppo", "CartPole-v1", "--total-steps", "20480", "--num-envs", "8",
        "--model.hidden", "8,8", "--checkpoint.every", "1024", "--evaluation.num-episodes", "1", "--logging.tensorboard", "false",
        "--runtime.accelerate", "eager", "--output-dir", "out",
    ]  # fmt: skip
    process = subprocess.Popen(command, cwd=tmp_path, env=ENVIRON, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    while process.poll() is None and not list(tmp_path.glob("out/*/checkpoints/step_*")):
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    output = process.communicate()[0]
    assert process.returncode == 143, output
    run_dir = run_inside(tmp_path / "out")
    assert f"rl-training resume {run_dir.relative_to(tmp_path)}" in " ".join(output.split()), output
    assert json.loads((run_dir / "run.json").read_text())["status"] == "interrupted"

    command = [sys.executable, "-m", "rl_training.cli", "resume", str(run_dir)]
    resumed = subprocess.run(command, cwd=tmp_path, env=ENVIRON, text=True, capture_output=True)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    info = json.loads((run_dir / "run.json").read_text())
    assert (info["status"], info["step"]) == ("finished", 20480), info
