"""Ctrl-C and SIGTERM save, say how to go on, and leave with the exit code of the signal."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = [sys.executable, "-m", "rl_training.cli"]
SMALL = [
    "--model.hidden=8,8",
    "--evaluation.num-episodes=2",
    "--logging.tensorboard=false",
    "--runtime.accelerate=eager",
]
TRAIN = [*PROGRAM, "train", "ppo", "CartPole-v1", *SMALL]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_the_run_can_go_on(number: signal.Signals, code: int, tmp_path: Path) -> None:
    command = [*TRAIN, "--total-steps=100000000"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("run "):
                break
        metrics = tmp_path / line.split()[1] / "metrics.jsonl"
        while process.poll() is None and not metrics.stat().st_size:
            time.sleep(0.02)  # until it has learned a little
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    said = re.search(r"^saved step_(\d+)\. Continue: rl-training resume (\S+)$", err, re.MULTILINE)
    assert said is not None and "Traceback" not in err, err
    run = tmp_path / said[2]
    assert json.loads((run / "run.json").read_text())["status"] == "interrupted"

    end = str(int(said[1]) + 512)
    done = subprocess.run(
        [*PROGRAM, "resume", said[2], "--total-steps", end], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert f"resuming {said[2]} at step {int(said[1]):,}" in done.stdout, done.stdout
    assert json.loads((run / "run.json").read_text())["status"] == "finished"


def test_training_goes_on_when_its_reader_has_left(tmp_path: Path) -> None:
    command = [*TRAIN, "--total-steps=2048"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline().startswith("preset")
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()
        process.wait(timeout=60)
    (run,) = tmp_path.glob("runs/*")
    assert (process.returncode, err) == (0, "")
    assert json.loads((run / "run.json").read_text())["status"] == "finished"
