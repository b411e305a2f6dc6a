"""The only module that writes durably: after a function here returns, its effect survives a kill and a power loss.

Every change of the file system is announced to `operation` first, so tests can count, fail or stop at each one.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rl_training.errors import StorageError

LEFTOVERS = (".tmp-*", ".trash-*")  # unfinished writes and removals: never read, removed at the next start
_operations = 0


def operation(name: str, path: Path) -> None:
    """Announce one change of the file system; called before it happens."""
    # RLT_CRASH_AT=<n> makes a process kill itself at its n-th operation; the crash tests go through every n.
    global _operations
    _operations += 1
    if os.environ.get("RLT_CRASH_AT") == str(_operations):
        os.kill(os.getpid(), signal.SIGKILL)


def write_bytes(path: Path, data: bytes, *, sync_folder: bool = True) -> None:
    """Replace a file's content in one step; `sync_folder=False` leaves its name to a later `fsync_dir` of many."""
    with _refusals(path, len(data)):
        temporary = temporary_sibling(path)
        try:
            _write_new(temporary, data)
            operation("replace", path)
            temporary.replace(path)
        except OSError:
            with suppress(StorageError):
                remove_file(temporary)
            raise
        if sync_folder:
            fsync_dir(path.parent)


def write_new(path: Path, data: bytes) -> None:
    """Write and fsync a file that must not exist yet, inside a folder that nobody reads until `publish_dir`."""
    with _refusals(path, len(data)):
        _write_new(path, data)


def make_dir(path: Path) -> None:
    """Create a folder and its missing parents, durably; an existing one is fine."""
    with _refusals(path):
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        for folder in reversed(missing):
            operation("mkdir", folder)
            folder.mkdir(exist_ok=True)
            fsync_dir(folder.parent)


def make_new_dir(path: Path) -> bool:
    """Create a folder that nobody else has; False when the name is taken, even by a process that does the same."""
    with _refusals(path):
        operation("mkdir", path)
        try:
            path.mkdir()
        except FileExistsError:
            return False
        fsync_dir(path.parent)
    return True


def publish_dir(temporary: Path, final: Path) -> None:
    """Give a finished folder its name in one step; an existing `final` is never replaced."""
    with _refusals(final):
        fsync_dir(temporary)
        # rename() would silently replace an empty folder. The run lock keeps other writers away between these lines.
        if os.path.lexists(final):
            raise FileExistsError(17, "it exists already", str(final))
        rename(temporary, final)


def rename(old: Path, new: Path) -> None:
    """Rename within one folder, durably."""
    with _refusals(new):
        operation("rename", new)
        old.rename(new)
        fsync_dir(new.parent)


def fsync_dir(folder: Path) -> None:
    """Make the names in a folder durable."""
    with _refusals(folder):
        operation("fsync_dir", folder)
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_tree(path: Path) -> None:
    """Remove a folder: first under a name that is never read, so that a kill cannot leave half of it in sight."""
    trash = path
    if not path.name.startswith((".trash-", ".tmp-")):
        trash = path.with_name(f".trash-{secrets.token_hex(8)}")
        rename(path, trash)
    with _refusals(trash):
        operation("rmtree", trash)
        shutil.rmtree(trash)


def remove_file(path: Path) -> None:
    """Remove one file."""
    with _refusals(path):
        operation("unlink", path)
        path.unlink(missing_ok=True)


def temporary_sibling(path: Path) -> Path:
    """A fresh `.tmp-` name in the same folder, hence on the same file system."""
    return path.with_name(f".tmp-{os.getpid()}-{secrets.token_hex(8)}")


class AppendFile:
    """A log that only grows: `write` appends, `sync` makes it durable and returns its length for the checkpoint.

    Give that length as `keep` when resuming: later bytes are cut off, so each row exists exactly once.
    """

    def __init__(self, path: Path, keep: int | None = None) -> None:
        self.path = path
        with _refusals(path):
            operation("open", path)
            self._file = path.open("ab")
            length = self._file.tell()
            # A log that someone shortened is not padded with zeros; the caller can report what is missing.
            self.missing_bytes = max(0, (keep or 0) - length)
            if keep is not None and keep < length:
                operation("truncate", path)
                self._file.truncate(keep)
                self._file.seek(keep)

    def write(self, data: bytes) -> None:
        with _refusals(self.path, len(data)):
            operation("write", self.path)
            self._file.write(data)
            self._file.flush()

    def sync(self) -> int:
        """Make everything written so far durable; returns the length of the file."""
        with _refusals(self.path):
            operation("fsync", self.path)
            os.fsync(self._file.fileno())
            return self._file.tell()

    def close(self) -> None:
        self._file.close()


def free_bytes(path: Path) -> int:
    """Free space on the file system of `path`, which need not exist yet."""
    return shutil.disk_usage(next(folder for folder in (path, *path.absolute().parents) if folder.exists())).free


def size_text(count: float) -> str:
    """Bytes for people: 48 MB."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def _write_new(path: Path, data: bytes) -> None:
    operation("open", path)
    with path.open("xb") as file:
        half = len(data) // 2  # in two writes, so that the crash tests also see a torn file
        for piece in (memoryview(data)[:half], memoryview(data)[half:]):
            operation("write", path)
            file.write(piece)
            file.flush()
        operation("fsync", path)
        os.fsync(file.fileno())


@contextmanager
def _refusals(path: Path, needed: int = 0) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        need = f"This write needs {size_text(needed)}; " if needed else ""
        raise StorageError(
            f"Cannot write {path}: {error.strerror or error}.",
            f"{need}{size_text(free_bytes(path))} are free there.",
            "Free space or mend the permissions, then start again.",
        ) from error
