"""Checkpoints of a run: published whole or not at all, verified before use, damaged ones passed over.

    runs/x/checkpoints/step_000012000/   <part>.json, <part>.safetensors per part, manifest.json (written last)
    runs/x/checkpoints/LATEST            name of the newest, a hint for people and scripts
    runs/x/replay_store/<sha256>.safetensors   chunks of large arrays, shared by the checkpoints
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from safetensors import SafetensorError

from rl_training import _atomic
from rl_training.errors import CheckpointError, StorageError
from rl_training.experiment.chunks import ChunkStore, ChunkTable
from rl_training.experiment.lock import is_locked_by_another
from rl_training.experiment.manifest import (
    FORMAT,
    FORMAT_VERSION,
    MANIFEST_NAME,
    DamagedError,
    Manifest,
    describe,
    manifest_bytes,
    read_files,
    read_manifest,
    versions,
)
from rl_training.experiment.retention import (
    find_best,
    free_name,
    list_checkpoints,
    prune,
    set_aside,
    short_name,
)
from rl_training.experiment.tree import arrays_from_bytes, arrays_to_bytes, join, split, to_json
from rl_training.state import ChunkedArray, Tree

Paths: TypeAlias = list[Path]

_PART = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint in memory."""

    path: Path
    step: int
    parts: dict[str, Tree]
    meta: dict[str, Any]
    manifest: Manifest


class CheckpointStore:
    """Saves and loads the checkpoints of one run. Whoever calls `save` holds the `RunLock` of the run.

    After each save the last `keep` steps and the newest checkpoint marked best remain. `skipped` tells which damaged
    ones `load_latest` passed over. Training continues from the newest step only: to go back further, start a new run.
    """

    def __init__(self, run_dir: Path, keep: int = 3) -> None:
        if keep < 1:
            raise ValueError(f"keep = {keep}: at least one checkpoint must remain")
        self.run_dir, self.keep = run_dir, keep
        self.folder = run_dir / "checkpoints"
        self.skipped: list[str] = []
        self._chunks = ChunkStore(run_dir / "replay_store")
        # Listed before the lock is looked at: what a writer creates after that cannot be in the list.
        folders = (run_dir, self.folder, self._chunks.folder)
        leftovers = [path for folder in folders for name in _atomic.LEFTOVERS for path in folder.glob(name)]
        if leftovers and not is_locked_by_another(run_dir):
            for path in leftovers:
                with suppress(StorageError):  # a reader without write permission leaves them
                    (_atomic.remove_tree if path.is_dir() else _atomic.remove_file)(path)

    def save(self, step: int, parts: dict[str, Tree], meta: dict[str, Any], *, best: bool = False) -> Path:
        """Write a checkpoint and return its folder. On StorageError every earlier checkpoint is still whole."""
        files: dict[str, bytes] = {}
        chunked: dict[str, ChunkedArray] = {}
        for part, tree in parts.items():
            if not _PART.fullmatch(part):
                raise ValueError(f"bad part name {part!r}")
            document, arrays, chunks = split(tree)
            files |= {f"{part}.json": to_json(document), f"{part}.safetensors": arrays_to_bytes(arrays)}
            chunked |= {part + path: array for path, array in chunks.items()}
        meta_document, *not_json = split(meta)
        if any(not_json):
            raise TypeError("meta holds arrays; put them into a part")
        need = sum(map(len, files.values())) + self._chunks.bytes_to_write(chunked)
        try:
            _atomic.make_dir(self.folder)
            self._require_free(need)
            table = self._chunks.save(chunked)
            entries = {name: describe(data) for name, data in files.items()}
            manifest = {"format": FORMAT, "format_version": FORMAT_VERSION, "step": step, "best": best}
            manifest |= {"versions": versions(), "meta": meta_document, "files": entries, "chunks": table}
            path = self._publish(step, files | {MANIFEST_NAME: manifest_bytes(manifest)}, table)
            _atomic.write_bytes(self.folder / "LATEST", f"{path.name}\n".encode())
            prune(self.folder, self.keep, path)
            self._collect_chunks()
        except StorageError as error:
            raise self._storage_error(error, step, need) from error
        return path

    def load(self, path: Path) -> Checkpoint:
        """Read one checkpoint; CheckpointError when a byte differs from what was written."""
        manifest = read_manifest(path)
        files = read_files(path, manifest)
        chunks = ChunkStore(path.parent.parent / "replay_store")
        try:
            chunked = chunks.load(manifest["chunks"], path)
            parts = {}
            for name in sorted({name.rpartition(".")[0] for name in files}):
                own = {key.removeprefix(name): array for key, array in chunked.items() if key.partition("/")[0] == name}
                document = json.loads(files[f"{name}.json"])
                parts[name] = join(document, arrays_from_bytes(files[f"{name}.safetensors"]), own)
            meta = join(manifest["meta"], {}, {})
        except (ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
            raise DamagedError(path, f"{type(error).__name__}: {error}") from error
        self._chunks.remember(manifest["chunks"])
        return Checkpoint(path, manifest["step"], parts, meta, manifest)

    def load_latest(self) -> Checkpoint:
        """The newest valid checkpoint. Damaged ones are renamed to `.corrupt-*` and named in `skipped`."""
        damaged: list[str] = []
        for path in reversed(self.list()):
            try:
                checkpoint = self.load(path)
            except DamagedError as error:
                damaged.append(f"{short_name(path)} is damaged ({error.reason})")
                if not is_locked_by_another(self.run_dir):
                    set_aside(path)
                continue
            self.skipped = [f"{text}, using {short_name(path)}" for text in damaged]
            return checkpoint
        raise CheckpointError(
            f"No valid checkpoint in {self.run_dir}.",
            "; ".join(damaged) or "It has saved none so far.",
            "List the runs with: rl-training list runs",
        )

    def list(self) -> Paths:
        """All published checkpoints, oldest first."""
        return list_checkpoints(self.folder)

    def best(self) -> Path | None:
        """The newest checkpoint that was saved with `best=True`."""
        return find_best(self.folder)

    def _require_free(self, need: int) -> None:
        free = _atomic.free_bytes(self.folder)
        if free < need * 1.2:
            raise StorageError(f"The disk is full: {_atomic.size_text(free)} are free in {self.folder}.")

    def _publish(self, step: int, files: dict[str, bytes], table: ChunkTable) -> Path:
        final = free_name(self.folder, step)
        temporary = _atomic.temporary_sibling(final)
        try:
            _atomic.make_new_dir(temporary)
            for name, data in files.items():
                _atomic.write_new(temporary / name, data)
            self._verify(temporary, table)
            _atomic.publish_dir(temporary, final)
        except StorageError:
            if temporary.exists():
                with suppress(StorageError):
                    _atomic.remove_tree(temporary)
            raise
        return final

    def _verify(self, folder: Path, table: ChunkTable) -> None:
        try:
            read_files(folder, read_manifest(folder))
            self._chunks.check(table, folder)
        except CheckpointError as error:
            raise StorageError(f"The disk gave back other bytes than were written to {folder}.", str(error)) from error

    def _collect_chunks(self) -> None:
        # A manifest that cannot be read may list any chunk, so then nothing is removed.
        with suppress(CheckpointError):
            self._chunks.collect([read_manifest(path)["chunks"] for path in self.list()])

    def _storage_error(self, error: StorageError, step: int, need: int) -> StorageError:
        kept = short_name(self.list()[-1]) if self.list() else "no earlier checkpoint"
        free = _atomic.size_text(_atomic.free_bytes(self.run_dir))
        return StorageError(
            error.what,
            f"Checkpoint step_{step} needs {_atomic.size_text(need)}, {free} free. Kept {kept}.",
            f"Free space, then: rl-training resume {self.run_dir}",
        )
