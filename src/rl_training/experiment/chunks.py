"""Chunks of large arrays, stored once under the hash of their content, so that a checkpoint costs what is new."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

from rl_training import _atomic
from rl_training.experiment.manifest import DamagedError, describe, read_verified
from rl_training.experiment.tree import arrays_from_bytes, arrays_to_bytes
from rl_training.state import ChunkedArray

Entry: TypeAlias = dict[str, Any]  # length, sha256 and version of one chunk
ChunkTable: TypeAlias = dict[str, Any]  # of a manifest: array path -> {"name": ..., "chunks": [Entry, ...]}


class ChunkStore:
    """The folder `replay_store/` of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[tuple[str, int, int], Entry] = {}  # (array path, chunk index, version): no need to hash again

    def path(self, entry: Entry) -> Path:
        return self.folder / f"{entry['sha256']}.safetensors"

    def bytes_to_write(self, arrays: dict[str, ChunkedArray]) -> int:
        """An upper bound of what `save` writes now."""
        return sum(
            chunk.nbytes
            for key, array in arrays.items()
            for index, chunk in enumerate(array.chunks)
            if self._find(key, index, array.versions[index]) is None
        )

    def save(self, arrays: dict[str, ChunkedArray]) -> ChunkTable:
        """Store what is new, durably; returns the table for the manifest."""
        table: ChunkTable = {}
        wrote = False
        for key, array in arrays.items():
            entries = []
            for index, chunk in enumerate(array.chunks):
                entry = self._find(key, index, array.versions[index])
                if entry is None:
                    data = arrays_to_bytes({"chunk": chunk})
                    entry = describe(data) | {"version": array.versions[index]}
                    if not self._holds(entry):
                        _atomic.make_dir(self.folder)
                        _atomic.write_bytes(self.path(entry), data, sync_folder=False)
                        wrote = True
                entries.append(entry)
            table[key] = {"name": array.name, "chunks": entries}
        if wrote:
            _atomic.fsync_dir(self.folder)
        self.remember(table)
        return table

    def load(self, table: ChunkTable, checkpoint: Path) -> dict[str, ChunkedArray]:
        """Read and verify every chunk of the table; `checkpoint` names the owner in errors."""
        arrays = {}
        for key, array in table.items():
            chunks = []
            for entry in array["chunks"]:
                content = {name: entry[name] for name in ("length", "sha256")}
                loaded = arrays_from_bytes(read_verified(self.path(entry), content, checkpoint))
                if loaded.keys() != {"chunk"}:
                    raise DamagedError(checkpoint, f"{self.path(entry).name}: not a chunk")
                chunks.append(loaded["chunk"])
            arrays[key] = ChunkedArray(array["name"], chunks, [entry["version"] for entry in array["chunks"]])
        return arrays

    def remember(self, table: ChunkTable) -> None:
        """Continue from the checkpoint with this table: chunks of the same version are not hashed again."""
        self._known = {
            (key, index, entry["version"]): entry
            for key, array in table.items()
            for index, entry in enumerate(array["chunks"])
        }

    def check(self, table: ChunkTable, checkpoint: Path) -> None:
        """DamagedError unless every chunk of the table is there in full length."""
        for array in table.values():
            for entry in array["chunks"]:
                if not self._has_length(entry):
                    raise DamagedError(checkpoint, f"{self.path(entry).name}: missing")

    def collect(self, tables: list[ChunkTable]) -> None:
        """Remove the chunks that none of these tables lists."""
        used = {self.path(entry) for table in tables for array in table.values() for entry in array["chunks"]}
        for path in self.folder.glob("*.safetensors"):
            if path not in used:
                _atomic.remove_file(path)

    def _find(self, key: str, index: int, version: int) -> Entry | None:
        entry = self._known.get((key, index, version))
        return entry if entry is not None and self._has_length(entry) else None

    def _has_length(self, entry: Entry) -> bool:
        path = self.path(entry)
        return path.is_file() and path.stat().st_size == entry["length"]

    def _holds(self, entry: Entry) -> bool:
        # The name alone is no proof: the file may have been damaged since, and would then be trusted once more.
        return self._has_length(entry) and describe(self.path(entry).read_bytes())["sha256"] == entry["sha256"]
