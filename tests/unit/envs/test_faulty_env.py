"""A sub-environment that raises, dies or hangs is named, with how to see it again; no process stays behind."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rl_training.envs import EnvAdapter, make_vector_env
from rl_training.envs.sync import LeanSyncVectorEnv
from rl_training.envs.workers import SupervisedAsyncVectorEnv
from rl_training.errors import EnvError
from rl_training.testing import Faulty, FourValues, Noisy, WrongShape


def adapter(backend: str, env_id: Any, timeout: float = 30.0, **kwargs: Any) -> EnvAdapter:
    env = SimpleNamespace(num_envs=2, backend=backend, kwargs=kwargs)
    return EnvAdapter(make_vector_env(SimpleNamespace(env_id=env_id, env=env)), step_timeout=timeout)


def failure(made: EnvAdapter, steps: int = 5) -> str:
    made.reset(seed=10)
    with pytest.raises(EnvError) as caught:
        for _ in range(steps):
            made.step(np.zeros(made.action_spec.shape and (2, *made.action_spec.shape), np.float32))
    made.close()
    assert multiprocessing.active_children() == []
    return str(caught.value)


@pytest.mark.parametrize("backend", ["sync", "async"])
def test_an_exception_names_env_seed_step_and_action(backend: str) -> None:
    text = failure(adapter(backend, Faulty, how="raise", seed=11))
    assert text.startswith("env 1 of 2 raised ZeroDivisionError: the wheel came off\n"), text
    assert "At step 3 of episode seed 11, action [0., 0.]" in text, text
    if backend == "async":
        assert re.search(r'testing.py", line \d+, in step', text), f"no traceback of the worker in: {text}"


def test_later_episodes_are_counted_from_the_seed() -> None:
    made = LeanSyncVectorEnv([lambda: Faulty("raise", at_step=51)] * 2)
    made.reset(seed=4)
    for env in made.envs:
        env._at_step = 10**9
    ended = 0
    while not ended:
        ended += made.step(np.zeros((2, 2), np.float32))[3][1]
    made.envs[1]._at_step = 2
    made.step(np.zeros((2, 2), np.float32))
    with pytest.raises(
        EnvError, match=r"env 1 of 2 raised .*\nAt step 2 of episode seed 5, 1 episodes after its seeded"
    ):
        made.step(np.zeros((2, 2), np.float32))


@pytest.mark.parametrize(("how", "told"), [("exit", "exit code 7"), ("segv", "SIGSEGV"), ("kill", "SIGKILL")])
def test_a_dead_worker_is_named_with_how_it_ended(how: str, told: str) -> None:
    text = failure(adapter("async", Faulty, how=how, seed=11))
    assert text.startswith(f"env 1 of 2 died ({told}) in step.\nAt step 3 of episode seed 11"), text
    if how == "segv":
        assert "testing.py" in text, f"no stack of the crash in: {text}"


def test_a_hung_worker_is_shown_with_its_stack() -> None:
    started = time.monotonic()
    text = failure(adapter("async", Faulty, timeout=3.0, how="hang", seed=11))
    assert text.startswith("env 1 of 2 hangs: no answer to step within 3 s.\nAt step 3"), text
    assert re.search(r'testing.py", line \d+ in step', text), text
    assert time.monotonic() - started < 30, "the hung worker was waited for"


def test_a_worker_that_cannot_build_its_env_is_reported() -> None:
    parent = os.getpid()

    def make() -> Any:
        if os.getpid() != parent:
            raise OSError("no licence left")
        return Noisy()

    with pytest.raises(EnvError, match=r"env \d of 2 died \(exit code 1\) in start(.|\n)*no licence left"):
        SupervisedAsyncVectorEnv([make, make])
    assert multiprocessing.active_children() == []


def test_four_values_and_a_wrong_shape_say_what_to_return() -> None:
    text = failure(adapter("sync", FourValues))
    assert text.startswith("FourValues.step did not return 5 values"), text
    assert "(obs, reward, terminated, truncated, info)" in text
    assert "shape (3,); observation_space says (2,)" in failure(adapter("sync", WrongShape))


@pytest.mark.parametrize("terminate", [False, True])
def test_closing_leaves_no_process_even_in_the_middle_of_a_step(terminate: bool) -> None:
    envs = adapter("async", Faulty, how="hang", at_step=2).envs
    envs.reset(seed=0)
    envs.step(np.zeros((2, 2), np.float32))
    envs.step_async(np.zeros((2, 2), np.float32))
    envs.close(timeout=0.2, terminate=terminate)
    assert multiprocessing.active_children() == []


ORPHANS = """
import numpy as np
from types import SimpleNamespace
from rl_training.envs import make_vector_env
from rl_training.testing import Noisy
if __name__ == "__main__":
    env = SimpleNamespace(num_envs=3, backend="async", kwargs={})
    envs = make_vector_env(SimpleNamespace(env_id="rl_training.testing:Noisy", env=env))
    print(*[p.pid for p in envs.processes], flush=True)
    envs.reset(seed=0)
    while True:
        envs.step(np.zeros((3, 2), np.float32))
"""


def test_workers_end_when_their_parent_is_killed(tmp_path: Any) -> None:
    script = tmp_path / "parent.py"
    script.write_text(ORPHANS)
    parent = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    )
    assert parent.stdout is not None
    workers = [int(pid) for pid in parent.stdout.readline().split()]
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 20
    while (alive := [pid for pid in workers if running(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(workers) == 3 and alive == [], f"{alive} of {workers} outlived their parent"


def running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - /proc may vanish between a check and a read
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_workers_ignore_ctrl_c_and_still_terminate() -> None:
    envs = adapter("async", Noisy).envs
    envs.reset(seed=0)
    for process in envs.processes:
        os.kill(process.pid, signal.SIGINT)
    obs = envs.step(np.zeros((2, 2), np.float32))[0]
    assert obs.shape == (2, 2)
    envs.close(terminate=True)
    assert multiprocessing.active_children() == []


def test_a_worker_state_moves_to_another_process(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    actions = [np.full((2, 2), x, np.float32) for x in np.linspace(-1, 1, 120)]
    first, second = adapter("async", "rl_training.testing:Noisy"), adapter("sync", "rl_training.testing:Noisy")
    first.reset(seed=0)
    for action in actions[:60]:
        first.step(action)
    second.load_state_dict(first.state_dict())
    assert first.capture == second.capture == "exact (plain Python)"
    for index, action in enumerate(actions[60:]):
        one, two = first.step(action), second.step(action)
        assert one.obs.tolist() == two.obs.tolist() and one.reward.tolist() == two.reward.tolist(), f"step {index}"
    first.close()
