"""Run directories: never overwritten, never outside their root, one writer, described without secrets, found again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rl_training.errors import ConfigError, LockedError
from rl_training.experiment.checkpointing import CheckpointStore
from rl_training.experiment.lock import is_locked, is_locked_by_another
from rl_training.experiment.provenance import mask_secrets
from rl_training.experiment.runs import RunLock, find_runs, make_run_dir, read_run_info, resolve_run, write_run_info


@dataclass
class Config:
    output_dir: Path
    algo: str = "ppo"
    env_id: str = "CartPole-v1"
    seed: int = 7


def make_run(root: Path, env_id: str = "CartPole-v1", **info: object) -> Path:
    run = make_run_dir(Config(root, env_id=env_id))
    write_run_info(run, **info)
    return run


def test_name_says_what_runs(tmp_path: Path) -> None:
    path = make_run_dir(Config(tmp_path / "new" / "runs"))
    assert re.fullmatch(r"ppo__CartPole-v1__seed7__\d{8}T\d{6}Z", path.name) and path.is_dir(), path
    atari = make_run_dir(Config(tmp_path, env_id="ALE/Pong-v5"))
    assert atari.parent == tmp_path and "__ALE-Pong-v5__" in atari.name, atari


NAMES = st.text(max_size=40) | st.sampled_from(
    ["..", "../..", "/etc", "a\0b", "C:\\x", "x.", "x" * 300, "．．／x", "-rf", "~", "$HOME", "a\nb", "", "c/../../x"]
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(NAMES, NAMES)
@example("../../../tmp/x", "..")
def test_hostile_names_stay_inside(tmp_path_factory: pytest.TempPathFactory, env_id: str, algo: str) -> None:
    root = tmp_path_factory.mktemp("runs")
    path = make_run_dir(Config(root, algo=algo, env_id=env_id))
    assert path.resolve().parent == root.resolve() and list(root.iterdir()) == [path], path
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", path.name) and len(path.name) < 200, path.name


def test_a_link_in_the_way_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = make_run_dir(Config(tmp_path))
    outside = tmp_path / "outside"
    outside.mkdir()
    first.rmdir()
    for second in range(3):  # the stamp may move on meanwhile
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() + second))
        (tmp_path / f"ppo__CartPole-v1__seed7__{stamp}").symlink_to(outside)
    path = make_run_dir(Config(tmp_path))
    assert not path.is_symlink() and path.name.endswith("Z-2"), path


def test_processes_that_start_together_get_their_own_runs(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from types import SimpleNamespace\n"
        "from rl_training.experiment.runs import make_run_dir\n"
        "cfg = SimpleNamespace(algo='ppo', env_id='CartPole-v1', seed=1, output_dir=sys.argv[1])\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "for _ in range(5): print(make_run_dir(cfg))"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(8)]  # type: ignore[call-overload]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    made = [line for process in processes for line in process.communicate()[0].split()]
    assert len(made) == len(set(made)) == len(list(tmp_path.iterdir())) == 40, made


# Lock


HOLD = (
    "import sys, time; from pathlib import Path; from rl_training.experiment.runs import RunLock\n"
    "lock = RunLock(Path(sys.argv[1])); lock.acquire(); print('held', flush=True); time.sleep(60)"
)


def test_second_process_is_refused_until_the_first_is_killed(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        assert is_locked(tmp_path) and is_locked_by_another(tmp_path)
        with pytest.raises(LockedError, match=rf"in use by pid {holder.pid} on host \S+ since 2") as caught:
            RunLock(tmp_path).acquire()
        assert caught.value.exit_code == 5 and "rl-training list runs" in caught.value.fix
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with RunLock(tmp_path):
        assert is_locked(tmp_path) and not is_locked_by_another(tmp_path)
        with pytest.raises(LockedError):
            RunLock(tmp_path).acquire()
    assert not is_locked(tmp_path)


def test_a_forked_worker_does_not_keep_the_lock(tmp_path: Path) -> None:
    lock = RunLock(tmp_path)
    lock.acquire()
    pid = os.fork()
    if pid == 0:
        time.sleep(30)
        os._exit(0)
    try:
        for _ in range(100):  # the child closes its copy as soon as it runs
            links = [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()]
            if not any(link.endswith("run.lock") for link in links):
                break
            time.sleep(0.02)
        assert is_locked(tmp_path), "the child must not release the lock of its parent"
        lock.release()
        assert not is_locked(tmp_path)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


# run.json


def test_run_info_records_the_process_and_keeps_fields(tmp_path: Path) -> None:
    write_run_info(tmp_path, status="running", seed=7)
    write_run_info(tmp_path, status="finished", exit_code=0)
    info = read_run_info(tmp_path)
    assert (info["status"], info["seed"], info["exit_code"]) == ("finished", 7, 0)
    assert info["hardware"]["cpus"] == os.cpu_count() and info["versions"]["python"] in sys.version
    assert info["host_class"] and info["started"].startswith("2") and sys.argv[0] in info["command"], info


def test_damaged_run_info_reads_as_empty(tmp_path: Path) -> None:
    for content in (b"", b"{", b"[1]", b"\xff", b"[" * 100_000, b" " * 2_000_000):
        (tmp_path / "run.json").write_bytes(content)
        assert read_run_info(tmp_path) == {}, content[:10]


TOKEN = "ghp_abcdefghijklmnop0123456789"


def test_secrets_do_not_reach_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository, run = tmp_path / "repository", tmp_path / "run"
    repository.mkdir()
    run.mkdir()
    monkeypatch.chdir(repository)
    (repository / "code.py").write_text("key = 1\n")
    for command in (
        ["init", "-q"],
        ["remote", "add", "origin", f"https://me:hunter2@example.com/x.git?token={TOKEN}"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x"],
    ):
        subprocess.run(["git", *command], check=True)
    (repository / "code.py").write_text(f"key = 2\nlogin('{TOKEN}')\n")
    monkeypatch.setenv("WANDB_API_KEY", "hunter2")
    arguments = ["prog", "train", "--api-key", "hunter2", "--wandb.token=hunter2", "--set", "logger.password=hunter2"]
    monkeypatch.setattr(sys, "argv", [*arguments, "--seed", "3", TOKEN])
    write_run_info(run, status="running")
    for path in run.iterdir():
        assert "hunter2" not in path.read_text() and TOKEN not in path.read_text(), path.read_text()
    info = read_run_info(run)
    assert info["git"]["dirty"] and len(info["git"]["commit"]) == 40
    assert info["git"]["remote"].startswith("https://***@example.com/x.git"), info["git"]
    assert "--seed 3" in info["command"] and "+key = 2" in (run / "git.diff").read_text()


def test_masking_keeps_the_rest_of_the_command() -> None:
    line = ["rl-training", "ppo", "--secret", "x", "--lr", "1e-4", "--monkey-token=y", "a=b", "--password", "--debug"]
    expected = "rl-training ppo --secret *** --lr 1e-4 --monkey-token=*** a=b --password --debug"
    assert " ".join(mask_secrets(line)) == expected


# Finding runs


def test_find_runs_tells_status_and_steps(tmp_path: Path) -> None:
    done = make_run(tmp_path, status="finished", step=50_000, started="2026-01-02")
    dead = make_run(tmp_path / "nested", env_id="Pong", status="running", started="2026-01-01")
    CheckpointStore(dead).save(1024, {"a": {}}, {})
    live = make_run(tmp_path, env_id="Hopper-v5", status="running", step=3, started="2026-01-03")
    with RunLock(live):
        found = [(run.path, run.status, run.step) for run in find_runs(tmp_path)]
    assert found == [(live, "running", 3), (done, "finished", 50_000), (dead, "killed", 1024)]


def test_resolve_by_path_by_name_and_from_inside(tmp_path: Path) -> None:
    run = make_run(tmp_path, status="finished")
    nested = make_run(tmp_path / "sweep", env_id="Pong", status="finished")
    checkpoint = CheckpointStore(run).save(1, {"a": {}}, {})
    for given_path in (run, str(run), run.name, checkpoint, f"{run.name}/checkpoints"):
        assert resolve_run(given_path, tmp_path) == run, given_path
    assert resolve_run(nested.name, tmp_path) == nested


def test_wrong_path_lists_the_nearest_runs(tmp_path: Path) -> None:
    run = make_run(tmp_path, status="finished", step=50_000)
    make_run(tmp_path, env_id="Walker2d-v5", status="failed")
    with pytest.raises(ConfigError) as caught:
        resolve_run("ppo__CartPol-v1__seed7", tmp_path)
    assert caught.value.what == "No run at 'ppo__CartPol-v1__seed7'."
    assert caught.value.why.startswith(f"Nearest: {run} (finished, 50,000 steps); "), caught.value.why
    assert caught.value.fix == f"Did you mean {run}?" and caught.value.exit_code == 2
    with pytest.raises(ConfigError, match="There are no runs in"):
        resolve_run("x", tmp_path / "empty")


def test_run_info_is_json_for_other_tools(tmp_path: Path) -> None:
    write_run_info(tmp_path, output=tmp_path)
    assert json.loads((tmp_path / "run.json").read_text())["output"] == str(tmp_path)


def test_a_run_is_found_by_the_beginning_of_its_name_where_that_is_clear(tmp_path: Path) -> None:
    for name in ("ppo__CartPole-v1__seed0__A", "ppo__CartPole-v1__seed1__A", "ppo__CartPole-v1__seed1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text("{}")
    assert resolve_run("ppo__CartPole-v1__seed0", tmp_path).name == "ppo__CartPole-v1__seed0__A"
    assert resolve_run("ppo__CartPole-v1__seed1", tmp_path).name == "ppo__CartPole-v1__seed1", "a whole name comes first"
    for unclear in ("ppo__CartPole", ""):
        with pytest.raises(ConfigError, match="No run at"):
            resolve_run(unclear, tmp_path)
