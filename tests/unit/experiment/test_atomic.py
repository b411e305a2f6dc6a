"""Durable I/O: whole files or the old ones, clear refusals, nothing replaced by accident."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from rl_training import _atomic
from rl_training.errors import StorageError


def failing(monkeypatch: pytest.MonkeyPatch, at: int) -> list[str]:
    """Let the `at`-th operation and all later ones meet a full disk; returns the names of all operations."""
    seen: list[str] = []

    def operation(name: str, path: Path) -> None:
        seen.append(name)
        if len(seen) >= at:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(_atomic, "operation", operation)
    return seen


def test_write_bytes_replaces_the_whole_content(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for data in (b"first", b"2", b""):
        _atomic.write_bytes(path, data)
        assert path.read_bytes() == data
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_file_and_folder_are_synced_around_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = failing(monkeypatch, at=10**9)
    _atomic.write_bytes(tmp_path / "a", b"data")
    assert seen == ["open", "write", "write", "fsync", "replace", "fsync_dir"]
    seen.clear()
    (tmp_path / "new").mkdir()
    _atomic.publish_dir(tmp_path / "new", tmp_path / "final")
    assert seen == ["fsync_dir", "rename", "fsync_dir"]


@pytest.mark.parametrize("at", range(1, 7))
def test_full_disk_leaves_old_or_new_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    failing(monkeypatch, at)
    with pytest.raises(StorageError) as caught:
        _atomic.write_bytes(path, b"new data")
    assert path.read_bytes() == (b"new data" if at == 6 else b"old"), at
    assert "No space left" in caught.value.what and "are free there" in caught.value.why, caught.value
    assert ("This write needs 8 bytes" in caught.value.why) == (at < 6), caught.value
    assert caught.value.exit_code == 3


def test_publish_never_replaces(tmp_path: Path) -> None:
    for name in ("new", "final"):  # an empty folder is what a bare rename would replace
        (tmp_path / name).mkdir()
    with pytest.raises(StorageError, match="exists already"):
        _atomic.publish_dir(tmp_path / "new", tmp_path / "final")
    assert (tmp_path / "new").is_dir()


def test_remove_tree_hides_before_it_removes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "step"
    folder.mkdir()
    (folder / "file").write_bytes(b"x")
    failing(monkeypatch, at=3)  # rename, fsync_dir, then the removal itself fails
    with pytest.raises(StorageError):
        _atomic.remove_tree(folder)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".trash-"), left
    monkeypatch.undo()
    _atomic.remove_tree(left)
    assert list(tmp_path.iterdir()) == []


def test_log_is_cut_to_the_length_of_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    log = _atomic.AppendFile(path)
    log.write(b"one\n")
    kept = log.sync()
    log.write(b"two\n")
    log.close()
    assert kept == 4 and path.read_bytes() == b"one\ntwo\n"
    log = _atomic.AppendFile(path, keep=kept)
    log.write(b"2\n")
    assert log.sync() == 6 and log.missing_bytes == 0
    log.close()
    assert path.read_bytes() == b"one\n2\n"
    log = _atomic.AppendFile(path, keep=100)
    log.close()
    assert log.missing_bytes == 94 and path.read_bytes() == b"one\n2\n"


def test_full_disk_in_a_log_is_a_storage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = _atomic.AppendFile(tmp_path / "log")
    failing(monkeypatch, at=1)
    with pytest.raises(StorageError):
        log.write(b"row\n")
    log.close()


def test_make_new_dir_tells_that_a_name_is_taken(tmp_path: Path) -> None:
    assert _atomic.make_new_dir(tmp_path / "a") is True
    assert _atomic.make_new_dir(tmp_path / "a") is False


def test_sizes_for_people() -> None:
    assert [_atomic.size_text(n) for n in (12, 48e6, 3.2e9)] == ["12 bytes", "48 MB", "3.2 GB"]
