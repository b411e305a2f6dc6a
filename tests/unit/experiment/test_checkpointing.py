"""Checkpoints: exact, whole after any kill or full disk, verified before use, and no bigger than what is new."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from rl_training import _atomic
from rl_training.errors import CheckpointError, StorageError
from rl_training.experiment import chunks as chunk_module
from rl_training.experiment import manifest as manifests
from rl_training.experiment.checkpointing import CheckpointStore
from rl_training.experiment.lock import RunLock
from rl_training.experiment.manifest import DamagedError, manifest_bytes, read_manifest
from rl_training.state import ChunkedArray

META = {"config_hash": "abc", "score": float("nan"), "steps": [1, 2]}


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process needs no flush, only a power loss does; that fsync is called is tested in test_atomic."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def state(step: int, salt: int = 0) -> dict[str, Any]:
    """Parts that depend on the step: chunk 0 of the buffer never changes, chunk 1 does each time."""
    weights = torch.full((3, 2), float(step) + 0.1 * salt)
    chunks = [np.full((4, 2), salt, np.float32), np.full((4, 2), step, np.float32)]
    return {
        "learner": {"w": weights, "b": weights[0, 0].to(torch.bfloat16), "lr": [0.1, float("inf")]},
        "buffer": {"obs": ChunkedArray("obs", chunks, [0, step]), "position": step},
        "rng": {"state": 2**127 + step},
    }


def step_of(parts: dict[str, Any]) -> int:
    """The step these parts were saved at, having compared every value."""
    step, expected = parts["buffer"]["position"], state(parts["buffer"]["position"])
    learner, wanted = parts["learner"], expected["learner"]
    assert torch.equal(learner["w"], wanted["w"]) and torch.equal(learner["b"], wanted["b"]), learner
    assert learner["lr"] == wanted["lr"] and parts["rng"] == expected["rng"], parts
    found, wanted = (np.concatenate(tree["buffer"]["obs"].chunks) for tree in (parts, expected))
    assert np.array_equal(found, wanted)
    assert parts["buffer"]["obs"].versions == [0, step]
    return int(step)


def filled(run: Path, *steps: int) -> CheckpointStore:
    run.mkdir(exist_ok=True)
    store = CheckpointStore(run)
    for step in steps:
        store.save(step, state(step), META)
    return store


def all_files(run: Path) -> list[Path]:
    return sorted(path for path in run.rglob("*") if path.is_file() and path.name != "LATEST")


def steps(store: CheckpointStore) -> list[int]:
    return [read_manifest(path)["step"] for path in store.list()]


def test_round_trip_gives_everything_back(tmp_path: Path) -> None:
    path = filled(tmp_path, 12000).save(24000, state(24000), META, best=True)
    store = CheckpointStore(tmp_path)
    loaded = store.load_latest()
    assert (loaded.path, loaded.step, step_of(loaded.parts)) == (path, 24000, 24000)
    assert path.name == "step_000024000" and store.best() == path and store.skipped == []
    assert loaded.meta["steps"] == [1, 2] and np.isnan(loaded.meta["score"])
    assert loaded.manifest["versions"].keys() == {"python", "rl-training", "torch", "numpy", "gymnasium"}
    assert loaded.manifest["versions"]["numpy"] == np.__version__
    assert (tmp_path / "checkpoints" / "LATEST").read_text() == "step_000024000\n"
    loaded.parts["learner"]["w"] += 1  # what is loaded can be trained on
    assert not list(tmp_path.rglob(".*"))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.dictionaries(st.text(max_size=4), st.integers() | st.floats(allow_nan=False) | st.text(), max_size=4))
def test_meta_and_parts_of_any_content(tmp_path_factory: pytest.TempPathFactory, content: dict[str, Any]) -> None:
    store = CheckpointStore(tmp_path_factory.mktemp("run"))
    loaded = store.load(store.save(1, {"a": content, "empty": {}}, content))
    assert loaded.parts == {"a": content, "empty": {}} and loaded.meta == content


# Kills


def in_child(work: Callable[[], object], crash_at: int) -> bool:
    """Run `work` in a fork that kills itself at operation `crash_at`; whether it got to the end."""
    pid = os.fork()
    if pid == 0:
        try:
            _atomic._operations = 0
            os.environ["RLT_CRASH_AT"] = str(crash_at)
            work()
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitpid(pid, 0)[1]
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert killed or status == 0, f"operation {crash_at}: the child ended with status {status}"
    return not killed


def test_kill_at_every_operation_of_a_save(tmp_path: Path) -> None:
    before = tmp_path / "before"
    filled(before, 1, 2, 3)
    outcomes = []
    for crash_at in range(1, 1000):
        run = tmp_path / "run"
        shutil.copytree(before, run)

        def resume_and_save(run: Path = run) -> None:
            store = CheckpointStore(run)
            store.load_latest()
            store.save(4, state(4), META)

        finished = in_child(resume_and_save, crash_at)
        store = CheckpointStore(run)
        assert not [*run.rglob(".tmp-*"), *run.rglob(".trash-*")], f"leftovers after a kill at operation {crash_at}"
        outcomes.append(step_of(store.load_latest().parts))
        assert outcomes[-1] in (3, 4) and store.skipped == [], (crash_at, store.skipped)
        # The next save heals everything: three checkpoints, and only their chunks.
        store.save(5, state(5), META)
        assert steps(store) == ([3, 4, 5] if outcomes[-1] == 4 else [2, 3, 5]), crash_at
        assert [step_of(store.load(path).parts) for path in store.list()] == steps(store)
        assert len(list((run / "replay_store").iterdir())) == 4, crash_at
        shutil.rmtree(run)
        if finished:
            break
    assert finished and len(outcomes) > 30, len(outcomes)
    assert outcomes == sorted(outcomes) and set(outcomes) == {3, 4}, outcomes


def test_kill_in_a_real_process(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from rl_training.experiment.checkpointing import CheckpointStore\n"
        "store = CheckpointStore(Path(sys.argv[1]))\n"
        "for step in range(1, 99): store.save(step, {'a': {'step': step}}, {})"
    )
    environment = os.environ | {"RLT_CRASH_AT": "200"}
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=environment, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done
    loaded = CheckpointStore(tmp_path).load_latest()
    assert loaded.parts["a"]["step"] == loaded.step > 1


# Full disks


@pytest.mark.parametrize("recovers", [False, True])
def test_full_disk_at_every_operation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recovers: bool) -> None:
    """Whether only one operation fails or all from then on, nothing earlier is lost."""
    before = tmp_path / "before"
    filled(before, 1, 2, 3)
    for fail_at in range(1, 1000):
        run = tmp_path / "run"
        shutil.copytree(before, run)
        store = CheckpointStore(run)
        store.load_latest()
        count = 0

        def operation(name: str, path: Path) -> None:
            nonlocal count
            count += 1
            if count == fail_at or (count > fail_at and not recovers):  # noqa: B023
                raise OSError(errno.ENOSPC, "No space left on device")

        failure = None
        with monkeypatch.context() as full_disk:
            full_disk.setattr(_atomic, "operation", operation)
            try:
                store.save(4, state(4), META)
            except StorageError as error:
                failure = error
        found = step_of(CheckpointStore(run).load_latest().parts)
        if count < fail_at:
            assert failure is None and found == 4
            break
        assert failure is not None, f"operation {fail_at} failed silently"
        assert f"Kept step_{found}." in failure.why and "No space left" in failure.what, failure
        store.save(5, state(5), META)  # with space again, the same store goes on
        assert step_of(store.load_latest().parts) == 5
        assert [step_of(store.load(path).parts) for path in store.list()] == steps(store)
        shutil.rmtree(run)
    assert fail_at > 30, fail_at


def test_too_little_space_is_refused_before_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(tmp_path, 1)
    files = all_files(tmp_path)
    monkeypatch.setattr(_atomic, "free_bytes", lambda path: 100)
    with pytest.raises(StorageError) as caught:
        store.save(2, state(2), META)
    text = str(caught.value)
    assert "disk is full" in text and "100 bytes free. Kept step_1." in text and "rl-training resume" in text, text
    assert all_files(tmp_path) == files


# Damage


def test_no_flipped_bit_goes_unnoticed(tmp_path: Path) -> None:
    store = filled(tmp_path, 7)
    (path,) = store.list()
    files = all_files(tmp_path)
    assert len(files) == 3 * 2 + 1 + 2, files
    draw = random.Random(1)
    for number in range(450):
        file = files[number % len(files)]
        good = file.read_bytes()
        bit = draw.randrange(8 * len(good))
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        file.write_bytes(bad)
        with pytest.raises(DamagedError) as caught:
            store.load(path)
        assert file.name in caught.value.reason, (file, bit, caught.value)
        file.write_bytes(good)
    assert step_of(store.load(path).parts) == 7


def test_truncation_falls_back_and_says_so(tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    filled(origin, 29696, 30720)
    own = [file for file in all_files(origin) if file.parent.name == "step_000030720"]
    chunk = CheckpointStore(origin).load_latest().manifest["chunks"]["buffer/obs"]["chunks"][1]["sha256"]
    for file in [*own, origin / "replay_store" / f"{chunk}.safetensors"]:
        run = tmp_path / "run"
        shutil.copytree(origin, run)
        os.truncate(run / file.relative_to(origin), file.stat().st_size // 2)
        store = CheckpointStore(run)
        assert step_of(store.load_latest().parts) == 29696, file
        (text,) = store.skipped
        assert text.startswith(f"step_30720 is damaged ({file.name}: ") and text.endswith(", using step_29696"), text
        assert steps(store) == [29696] and (run / "checkpoints" / ".corrupt-step_000030720").is_dir()
        shutil.rmtree(run)


def test_message_for_a_changed_file(tmp_path: Path) -> None:
    store = filled(tmp_path, 1, 2)
    file = store.list()[-1] / "learner.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\xff")
    store.load_latest()
    assert store.skipped == ["step_2 is damaged (learner.safetensors: hash differs), using step_1"]


@pytest.mark.parametrize("name", ["learner.safetensors", "learner.json", "rng.json", "manifest.json"])
def test_files_swapped_between_two_runs_are_noticed(tmp_path: Path, name: str) -> None:
    one, other = CheckpointStore(tmp_path / "one"), CheckpointStore(tmp_path / "other")
    path = one.save(1, state(1), META)
    parts = state(1, salt=1)
    parts["learner"]["lr"], parts["rng"] = [0.2, float("inf")], {"state": 5}
    shutil.copy(other.save(1, parts, META) / name, path / name)
    with pytest.raises(DamagedError):
        one.load(path)


def test_missing_extra_and_linked_files_are_noticed(tmp_path: Path) -> None:
    store = filled(tmp_path, 1)
    (path,) = store.list()
    (path / "notes.txt").write_text("x")
    with pytest.raises(DamagedError, match=r"notes\.txt: not in the manifest"):
        store.load(path)
    (path / "notes.txt").unlink()
    (path / "rng.json").rename(tmp_path / "rng.json")
    with pytest.raises(DamagedError, match=r"rng\.json: missing"):
        store.load(path)
    (path / "rng.json").symlink_to(tmp_path / "rng.json")
    with pytest.raises(DamagedError, match=r"rng\.json: missing"):
        store.load(path)


def test_no_valid_checkpoint_is_exit_code_4(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="saved none so far"):
        CheckpointStore(tmp_path).load_latest()
    store = filled(tmp_path, 1)
    (store.list()[0] / "manifest.json").unlink()
    with pytest.raises(CheckpointError, match=r"step_1 is damaged \(manifest.json: missing\)") as caught:
        store.load_latest()
    assert caught.value.exit_code == 4


def test_newer_format_is_refused_by_name_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        newer.setattr("rl_training.experiment.checkpointing.FORMAT_VERSION", 7)
        newer.setattr("rl_training.experiment.checkpointing.versions", lambda: {"rl-training": "0.9.0"})
        newer.setattr(manifests, "FORMAT_VERSION", 7)
        store = filled(tmp_path, 1)
    with pytest.raises(CheckpointError, match=r"written by rl-training 0.9.0 \(format 7\)") as caught:
        store.load_latest()
    assert 'pip install -U "rl-training>=0.9.0"' in caught.value.fix and len(store.list()) == 1


def test_huge_manifest_is_not_read(tmp_path: Path) -> None:
    store = filled(tmp_path, 1)
    (path,) = store.list()
    with (path / "manifest.json").open("r+b") as file:
        file.truncate(2**40)  # sparse
    with pytest.raises(DamagedError, match="instead of"):
        store.load(path)


HOSTILE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda t: st.lists(t, max_size=2) | st.dictionaries(st.sampled_from(["$array", "name", "length", "../x"]), t),
    max_leaves=5,
)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(st.data())
def test_well_sealed_nonsense_is_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Somebody who computes the hashes right can still only cause a CheckpointError."""
    store = CheckpointStore(tmp_path_factory.mktemp("run"))
    path = store.save(1, state(1), META)
    manifest = read_manifest(path)
    del manifest["sha256"]
    where: Any = manifest
    while True:
        key = data.draw(st.sampled_from(sorted(where) if isinstance(where, dict) else range(len(where))))
        if not isinstance(where[key], dict | list) or not where[key] or data.draw(st.booleans()):
            break
        where = where[key]
    where[key] = data.draw(HOSTILE)
    (path / "manifest.json").write_bytes(manifest_bytes(manifest))
    with suppress(CheckpointError):
        store.load(path)  # fine when the change was harmless, such as another meta value


@settings(max_examples=60, deadline=None, derandomize=True)
@given(content=st.binary(max_size=200) | HOSTILE.map(lambda x: json.dumps(x).encode()) | st.just(b"[" * 100_000))
def test_any_bytes_in_well_listed_files_are_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    store = CheckpointStore(tmp_path_factory.mktemp("run"))
    path = store.save(1, {"a": {"w": np.zeros(2)}}, {})
    manifest = read_manifest(path)
    del manifest["sha256"]
    for name in ("a.json", "a.safetensors"):
        good = (path / name).read_bytes()
        changed = manifest | {"files": manifest["files"] | {name: manifests.describe(content)}}
        (path / name).write_bytes(content)
        (path / "manifest.json").write_bytes(manifest_bytes(changed))
        with pytest.raises(CheckpointError):
            store.load(path)
        (path / name).write_bytes(good)


# Retention


def test_last_k_and_best_remain(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=2)
    for step in range(1, 7):
        store.save(step, state(step), META, best=step in (1, 3))
    assert steps(store) == [3, 5, 6]
    best = store.best()
    assert best is not None and step_of(store.load(best).parts) == 3
    assert len(list((tmp_path / "replay_store").iterdir())) == 1 + 3


def test_a_step_reached_again_supersedes_the_first_attempt(tmp_path: Path) -> None:
    store = filled(tmp_path, 1, 2)
    first = store.list()[-1]
    again = store.save(2, state(2), META | {"attempt": 2})
    assert again.name == "step_000000002-2" and not first.exists() and steps(store) == [1, 2]
    assert store.load_latest().meta["attempt"] == 2
    third = store.save(2, state(2), META)
    assert third.name == "step_000000002-3" and store.list()[-1] == third, "a freed name would sort before the second"


class Retention(RuleBasedStateMachine):
    """Save, damage and restart in any order: the newest undamaged checkpoint is always found."""

    def __init__(self) -> None:
        super().__init__()
        self.run = Path(tempfile.mkdtemp(dir=os.environ["RETENTION_DIR"]))
        self.store, self.step, self.damaged, self.best = CheckpointStore(self.run, keep=2), 0, set[str](), ""

    @rule(best=st.booleans(), ahead=st.booleans())
    def save(self, best: bool, ahead: bool) -> None:
        self.step += ahead or self.step == 0
        path = self.store.save(self.step, state(self.step), {}, best=best)
        self.best = path.name if best else self.best

    @precondition(lambda self: self.store.list())
    @rule(data=st.data())
    def damage(self, data: st.DataObject) -> None:
        file = data.draw(st.sampled_from(sorted(data.draw(st.sampled_from(self.store.list())).iterdir())))
        file.write_bytes(file.read_bytes()[:-1])
        self.damaged.add(file.parent.name)

    @rule()
    def restart(self) -> None:
        whole = [path for path in self.store.list() if path.name not in self.damaged]
        self.store = CheckpointStore(self.run, keep=2)
        if whole:
            loaded = self.store.load_latest()
            assert loaded.path == whole[-1] and step_of(loaded.parts) == loaded.step
            self.step = loaded.step
        else:
            with pytest.raises(CheckpointError):
                self.store.load_latest()
            self.step = 0

    @invariant()
    def few_and_whole(self) -> None:
        found = self.store.list()
        assert len(found) <= 2 + 1, found
        names = {path.name for path in found}
        self.best = "" if self.best in self.damaged else self.best
        assert not self.best or self.best in names, (self.best, names)
        self.damaged &= names
        for path in found:
            if path.name not in self.damaged:
                step_of(self.store.load(path).parts)


def test_retention_state_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETENTION_DIR", str(tmp_path))
    limits = settings(max_examples=25, stateful_step_count=12, deadline=None, derandomize=True)
    run_state_machine_as_test(Retention, settings=limits)


# Cost and concurrency


def test_unchanged_chunks_are_neither_hashed_nor_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = [np.full((64, 3), index, np.float32) for index in range(10)]
    parts = {"buffer": {"obs": ChunkedArray("obs", chunks, list(range(10)))}}
    store = CheckpointStore(tmp_path)
    encoded, written = [], []
    real = chunk_module.arrays_to_bytes
    monkeypatch.setattr(chunk_module, "arrays_to_bytes", lambda arrays: encoded.append(1) or real(arrays))
    monkeypatch.setattr(_atomic, "operation", lambda name, path: written.append(path) if name == "replace" else None)

    def cost() -> tuple[int, int]:
        counts = (len(encoded), sum(path.parent.name == "replay_store" for path in written))
        encoded.clear()
        written.clear()
        return counts

    store.save(1, parts, {})
    assert cost() == (10, 10)
    store.save(2, parts, {})
    assert cost() == (0, 0)
    chunks[4] = chunks[4] + 100
    parts["buffer"]["obs"].versions[4] += 100
    store.save(3, parts, {})
    assert cost() == (1, 1)
    resumed = CheckpointStore(tmp_path)
    loaded = resumed.load_latest()
    resumed.save(4, loaded.parts, {})
    assert cost() == (0, 0), "the loaded manifest restores what is known"
    CheckpointStore(tmp_path).save(5, parts, {})
    assert cost() == (10, 0), "a store that knows nothing hashes, and finds the same content"


def test_damaged_chunk_is_written_again(tmp_path: Path) -> None:
    filled(tmp_path, 1)
    for chunk in (tmp_path / "replay_store").iterdir():
        chunk.write_bytes(bytes(chunk.stat().st_size))
    store = CheckpointStore(tmp_path)
    store.save(2, state(2), {})
    assert step_of(store.load_latest().parts) == 2


def test_two_arrays_of_one_name_are_not_mixed_up(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    parts = {part: {"x": ChunkedArray("x", [np.full(3, value)], [0])} for part, value in (("a", 1.0), ("b", 2.0))}
    loaded = store.load(store.save(1, parts, {}))
    assert [loaded.parts[part]["x"].chunks[0][0] for part in "ab"] == [1.0, 2.0]


def test_leftovers_of_a_live_writer_are_left_alone(tmp_path: Path) -> None:
    filled(tmp_path, 1)
    leftover = tmp_path / "checkpoints" / ".tmp-1-abc"
    leftover.mkdir()
    lock = RunLock(tmp_path)
    lock.acquire()
    assert in_child(lambda: CheckpointStore(tmp_path), crash_at=0) and leftover.exists()
    CheckpointStore(tmp_path)
    assert not leftover.exists(), "the holder of the lock cleans up"
    lock.release()


def test_loading_runs_no_code(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; import torch\n"
        "from rl_training.experiment.checkpointing import CheckpointStore\n"
        "store = CheckpointStore(Path(sys.argv[1]))\n"
        "def audit(event, args):\n"
        "    if event in ('exec', 'compile', 'pickle.find_class', 'subprocess.Popen', 'socket.connect', 'os.system'):\n"
        "        sys.stderr.write(f'{event} {args}'); sys.stderr.flush(); import os; os._exit(9)\n"
        "sys.addaudithook(audit); print(store.load_latest().step)"
    )
    filled(tmp_path, 5)
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "5\n"), done
