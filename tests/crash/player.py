"""What happens in the process that trains: one job, watched from outside through the files it leaves in its folder."""

from __future__ import annotations

import importlib
import json
import mmap
import os
import signal
import struct
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from mutants import MUTANTS
from scenarios import SCENARIOS, write_random_pendulum

Job = dict[str, Any]
Trace = list[tuple[str, str, bool, float]]  # of every write: what, which file, whether inside a checkpoint, seconds since start

TIMEOUT = 120.0  # seconds after which a job counts as hung
COUNTER = "operations"  # the file that holds the number of the last write announced
CHUNK_ROWS = 128  # instead of thousands, so that tiny replays also have old chunks, new chunks and a growing one
SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "int": signal.SIGINT, "usr1": signal.SIGUSR1}


def play(job: Job) -> int:
    """Train or resume as `job` says; returns the exit code. At the end the job's folder has result.json and trace.json."""
    from rl_training import algorithms
    from rl_training.errors import UserError
    from rl_training.experiment.signals import Interrupted

    scenario, folder = SCENARIOS[job["scenario"]], Path(job["folder"])
    if job["action"] == "write data":
        write_random_pendulum(folder / "data")
        return 0
    trace = _watch_writes(job)
    if job.get("mutant"):
        MUTANTS[job["mutant"]][1]()
    kind: Any = algorithms.find(scenario.algo)
    try:
        if job["action"] == "resume":
            agent = kind.resume(next(folder.glob("*/config.yaml")).parent)
        else:
            settings = scenario.keywords(folder.parent) | {"output_dir": str(folder)} | job.get("settings", {})
            agent = kind(scenario.env_id, **settings).learn()
    except Interrupted as stop:
        return stop.exit_code
    except UserError as error:
        print(error)
        return error.exit_code
    evaluation = agent.result.evaluation
    result = {"metrics": agent.result.metrics, "evaluation": evaluation and [evaluation.returns, evaluation.lengths]}
    (folder / "result.json").write_text(json.dumps(result))
    (folder / "trace.json").write_text(json.dumps(trace))
    return 0


def _watch_writes(job: Job) -> Trace:
    """Note every durable write, count them where the harness can read the count after a kill, and die where it wants that."""
    from rl_training import _atomic
    from rl_training.data import chunked
    from rl_training.experiment.checkpointing import CheckpointStore

    chunked.CHUNK_ROWS = CHUNK_ROWS
    _atomic._operations = 0
    os.environ.pop("RLT_CRASH_AT", None)
    if "op" in job:
        os.environ["RLT_CRASH_AT"] = str(job["op"])
    counter = Path(job["folder"]) / COUNTER
    if not counter.exists():
        counter.write_bytes(bytes(8))
    with counter.open("r+b") as file:
        count = mmap.mmap(file.fileno(), 8)
    trace: Trace = []
    saving: list[bool] = []
    announce, save = _atomic.operation, CheckpointStore.save

    def operation(name: str, path: Path) -> None:
        trace.append((name, path.name, bool(saving), time.monotonic() - job["started"]))
        struct.pack_into("q", count, 0, len(trace))
        if job.get("raise", ["", 0])[1] == len(trace):
            os.kill(os.getpid(), SIGNALS[job["raise"][0]])
        announce(name, path)

    def noted_save(*args: Any, **kwargs: Any) -> Path:
        saving.append(True)
        try:
            return save(*args, **kwargs)
        finally:
            saving.clear()

    _atomic.operation, CheckpointStore.save = operation, noted_save
    return trace


def writes_of(job: Job) -> int:
    """How many writes the job's process has announced; 0 before it has begun to count."""
    try:
        return int(struct.unpack("q", (Path(job["folder"]) / COUNTER).read_bytes())[0])
    except (FileNotFoundError, struct.error):
        return 0


def serve() -> None:
    """Read jobs as JSON lines, run each in a fork of this process, and answer with what became of it."""
    import torch

    from rl_training import algorithms

    # Imported here, so that no trial waits for it; nothing is computed with torch, whose threads do not survive a fork.
    torch.set_num_threads(1)
    importlib.import_module("rl_training.experiment.manager")
    for name in algorithms.REGISTRY:
        algorithms.find(name)
    _load_compiled_kernels()
    for line in sys.stdin:
        print(json.dumps(_run_forked(json.loads(line))), flush=True)


def _load_compiled_kernels() -> None:
    """Numba reads a kernel from disk at its first call, which takes longer than a tiny run; forks then have it."""
    import numpy as np

    from rl_training.data.gae import gae
    from rl_training.data.replay_buffer import ReplayBuffer
    from rl_training.envs.native import make_native
    from rl_training.specs import ActionSpec, Leaf, ObsSpec

    for env_id in ("CartPole-v1", "Pendulum-v1"):
        envs = make_native(env_id, 1)
        envs.reset(seed=0)
        envs.step(envs.action_space.sample())
    one, flag = np.zeros((1, 1), np.float32), np.zeros((1, 1), np.bool_)
    gae(one, one, one, flag, flag, 0.9, 0.9)
    buffer = ReplayBuffer(ObsSpec((Leaf("", (1,), "float32"),)), ActionSpec("continuous", dim=1), capacity=4, priority=0.5)
    vector = one[..., None]
    buffer.add({"obs": vector, "next_obs": vector, "action": vector, "reward": one, "terminated": flag, "truncated": flag})
    batch = buffer.sample(2)
    buffer.tree.update(batch["index"].numpy(), np.zeros(2))


def _run_forked(job: Job) -> Job:
    job["started"] = started = time.monotonic()
    log = Path(job["folder"]) / "log.txt"
    log.touch()  # the process may be killed before it opens it
    child = os.fork()
    if child == 0:
        _play_and_exit(job, log)
    waiting = job.get("signal")  # name, write number, seconds after that write
    reached = None
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        elapsed = time.monotonic() - started
        if ended:
            break
        if waiting and reached is None and writes_of(job) >= waiting[1]:
            reached = elapsed
        if waiting and reached is not None and elapsed >= reached + waiting[2]:
            os.kill(child, SIGNALS[waiting[0]])
            waiting = None
        if elapsed > TIMEOUT:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.0002 if waiting else 0.002)
    return {"exit": os.waitstatus_to_exitcode(status), "log": log.read_text(errors="replace")[-4000:]}


def _play_and_exit(job: Job, log: Path) -> None:
    code = 1
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        code = play(job)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    # Without an argument a server; with one, that job alone, in a process that forks nothing.
    if len(sys.argv) == 1:
        serve()
    else:
        sys.exit(play({"started": time.monotonic(), **json.loads(sys.argv[1])}))
