"""The manifest of a checkpoint: which bytes belong to it, and who wrote it.

`manifest.json` is JSON whose last field is the SHA-256 of every byte before it. It is written last, so a folder
without a valid manifest is no checkpoint; it gives length and SHA-256 of every other file, so no damaged byte is used.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

from rl_training.errors import CheckpointError

Manifest: TypeAlias = dict[str, Any]

FORMAT = "rl-training checkpoint"
FORMAT_VERSION = 1
MANIFEST_NAME = "manifest.json"
MAX_MANIFEST_BYTES = 16 * 2**20  # the chunk lists of a large replay buffer need some
_SEAL = ',\n "sha256": "{}"\n}}\n'
_FILE_NAME = re.compile(r"[A-Za-z0-9_-]+\.(json|safetensors)")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class DamagedError(CheckpointError):
    """A checkpoint whose bytes are not those that were written; `reason` names the file and what differs."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is damaged ({reason}).", fix="Use another checkpoint of the run.")
        self.reason = reason


def versions() -> dict[str, str]:
    """Versions of what can change a result; read from package metadata, nothing is imported."""
    found = {"python": platform.python_version()}
    for name in ("rl-training", "torch", "numpy", "gymnasium"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "unknown"
    return found


def describe(data: bytes) -> dict[str, Any]:
    """Length and hash of one file, as the manifest lists them."""
    return {"length": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def manifest_bytes(manifest: Manifest) -> bytes:
    """The file content, sealed with its own hash."""
    body = json.dumps(manifest, allow_nan=False, indent=1).removesuffix("\n}")
    return (body + _SEAL.format(hashlib.sha256(body.encode()).hexdigest())).encode()


def read_manifest(folder: Path) -> Manifest:
    """The verified manifest of a checkpoint folder; DamagedError, or CheckpointError when a newer version wrote it."""
    path = folder / MANIFEST_NAME
    raw = read_verified(path, None, folder)
    body = raw[: -len(_SEAL.format("0" * 64))]
    if raw != body + _SEAL.format(hashlib.sha256(body).hexdigest()).encode():
        raise DamagedError(folder, f"{MANIFEST_NAME}: hash differs")
    try:
        manifest = json.loads(raw)
        # Later formats keep the seal, the name and these two fields, so that old versions can say what to install.
        if manifest["format"] == FORMAT and manifest["format_version"] > FORMAT_VERSION:
            _refuse_newer(folder, manifest)
        _check(manifest)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(folder, f"{MANIFEST_NAME}: {error!r}") from error
    return dict(manifest)


def read_verified(path: Path, entry: dict[str, Any] | None, folder: Path) -> bytes:
    """All bytes of one file, once length and hash are those of `entry`; `folder` names the checkpoint in the error."""
    limit = MAX_MANIFEST_BYTES if entry is None else entry["length"]
    try:
        if path.is_symlink() or not path.is_file():
            raise DamagedError(folder, f"{path.name}: missing")
        size = path.stat().st_size
        if size > limit or (entry is not None and size != limit):
            raise DamagedError(folder, f"{path.name}: {size} bytes instead of {limit}")
        data = path.read_bytes()
    except PermissionError as error:  # not damage: the file must not be set aside for it
        raise CheckpointError(f"Cannot read {path}.", str(error.strerror), "Mend its permissions.") from error
    except OSError as error:
        raise DamagedError(folder, f"{path.name}: {error.strerror}") from error
    if entry is not None and describe(data) != entry:
        raise DamagedError(folder, f"{path.name}: hash differs")
    return data


def read_files(folder: Path, manifest: Manifest) -> dict[str, bytes]:
    """Every file of the checkpoint, verified; a file too many is damage as well."""
    names = {path.name for path in folder.iterdir()} - {MANIFEST_NAME}
    if extra := sorted(names - manifest["files"].keys()):
        raise DamagedError(folder, f"{extra[0]}: not in the manifest")
    return {name: read_verified(folder / name, entry, folder) for name, entry in manifest["files"].items()}


def _refuse_newer(folder: Path, manifest: Manifest) -> None:
    writer, own = str(manifest["versions"]["rl-training"]), versions()["rl-training"]
    raise CheckpointError(
        f"{folder} was written by rl-training {writer} (format {manifest['format_version']}).",
        f"This is rl-training {own}, which reads formats up to {FORMAT_VERSION}.",
        f'Fix: pip install -U "rl-training>={writer}"',
    )


def _check(manifest: Manifest) -> None:
    if manifest["format"] != FORMAT or manifest["format_version"] != FORMAT_VERSION:
        raise ValueError(f"format {manifest['format']!r} version {manifest['format_version']!r} is unknown")
    if type(manifest["step"]) is not int or type(manifest["best"]) is not bool:
        raise TypeError("step or best has the wrong type")
    for name, entry in manifest["files"].items():
        if not _FILE_NAME.fullmatch(name) or name == MANIFEST_NAME:
            raise ValueError(f"bad file name {name!r}")
        _check_entry(entry)
    for array in manifest["chunks"].values():
        if array.keys() != {"name", "chunks"} or type(array["name"]) is not str:
            raise ValueError("bad chunk list")
        for chunk in array["chunks"]:
            if type(chunk["version"]) is not int:
                raise TypeError("bad chunk version")
            _check_entry({key: value for key, value in chunk.items() if key != "version"})


def _check_entry(entry: dict[str, Any]) -> None:
    if entry.keys() != {"length", "sha256"} or type(entry["length"]) is not int:
        raise ValueError("bad file entry")
    if not _SHA256.fullmatch(entry["sha256"]):
        raise ValueError("bad hash")
