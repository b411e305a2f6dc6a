"""Our own layout: a folder with `dataset.json` (what it is, and the hash of the data) and `data.safetensors`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rl_training import _atomic
from rl_training.data.blocks import first_row
from rl_training.data.dataset import Dataset
from rl_training.data.formats import DAMAGE, Expected, actions, flags, numbers, observations, rewards, sha256
from rl_training.data.formats.tensors import load_tensors, mapped_tensors
from rl_training.errors import ConfigError

FORMAT = 1
MANIFEST, DATA = "dataset.json", "data.safetensors"
MAX_MANIFEST_BYTES = 1 << 20
AGAIN = "Copy or record the dataset again."


def write_dataset(dataset: Dataset, out_dir: str | Path, made: dict[str, Any] | None = None) -> None:
    """Write a folder that `load_dataset` reads back exactly; it appears complete or not at all.

    `made` says in free form how the data came about (run, seed, policy); it must fit in JSON. Where both flags are set,
    as some environments do at the time limit, `terminated` is kept and `truncated` is cleared.
    """
    from safetensors.numpy import save

    out = Path(out_dir)
    refuse_existing(out)
    columns = dataset.columns() | {"truncated": dataset.truncated & ~dataset.terminated}
    tensors = {key: np.ascontiguousarray(column) for key, column in _flatten(columns).items()}
    for key, column in tensors.items():
        numbers(f"dataset {dataset.name}", key, column, len(dataset))
    data = save(tensors)
    manifest = {
        "format": FORMAT,
        "name": dataset.name,
        "env_id": dataset.env_id,
        "rows": len(dataset),
        "episodes": len(dataset.episode_starts()),
        "sha256": {DATA: hashlib.sha256(data).hexdigest()},
        "made": made or {},
    }
    text = json.dumps(manifest, indent=1).encode()
    _atomic.make_dir(out.parent)
    temporary = _atomic.temporary_sibling(out)
    _atomic.make_dir(temporary)
    try:
        _atomic.write_new(temporary / DATA, data)
        _atomic.write_new(temporary / MANIFEST, text)
        _atomic.publish_dir(temporary, out)
    except BaseException:
        _atomic.remove_tree(temporary)
        raise


def refuse_existing(out: Path) -> None:
    """ConfigError when the name is taken: to be asked before the work, too."""
    if out.exists():
        raise ConfigError(f"{out} exists already.", "Nothing is overwritten.", "Choose another name, or remove it.")


def read_dataset(folder: str | Path, expected: Expected | None = None, *, mmap: bool = False) -> Dataset:
    """Read a folder made by `write_dataset`, after comparing its hash.

    With `mmap`, the arrays are views of the file: rows are read from it when they are looked at, and the file is never changed.
    """
    folder, expected = Path(folder), expected or Expected()
    manifest, where, columns = read_columns(folder, mmap=mmap)
    count = len(columns["reward"]) if columns["reward"].ndim else 0
    if not count:
        raise ConfigError(f"{where} holds no transitions.", fix=AGAIN)
    terminated = flags(where, "terminated", columns["terminated"], count)
    truncated = flags(where, "truncated", columns["truncated"], count)
    if (row := first_row(np.logical_and, terminated, truncated)) is not None:
        raise ConfigError(
            f"{where}: terminated and truncated are both set in row {row}.",
            "An episode that ended has no value after it, one that was cut has: the row cannot be both.",
            AGAIN,
        )
    return Dataset(
        obs=observations(where, "obs", columns["obs"], count, expected.obs),
        action=actions(where, "action", columns["action"], count, expected, scaled=True),
        reward=rewards(where, "reward", columns["reward"], count),
        terminated=terminated,
        truncated=truncated,
        next_obs=observations(where, "next_obs", columns["next_obs"], count, expected.obs),
        name=manifest["name"],
        sha256=manifest["sha256"][DATA],
        source=str(folder),
        env_id=manifest["env_id"],
    )


def read_columns(folder: Path, *, mmap: bool = False) -> tuple[dict[str, Any], str, dict[str, Any]]:
    """The manifest, what to call the dataset in messages, and its columns, of which only the hash has been checked."""
    manifest = read_manifest(folder)
    if not (folder / DATA).is_file() or sha256(folder / DATA) != manifest["sha256"][DATA]:
        raise ConfigError(f"{folder / DATA} is damaged or missing: its hash differs from {MANIFEST}.", fix=AGAIN)
    columns = _nested(_read_tensors(folder / DATA, mapped_tensors if mmap else load_tensors))
    where = f"{folder} ({manifest['env_id']})" if manifest["env_id"] else str(folder)
    needed = {"obs", "action", "reward", "terminated", "truncated", "next_obs"}
    if set(columns) != needed:
        found, wanted = (", ".join(sorted(keys)) or "nothing" for keys in (columns, needed))
        keys = f"Found: {found}. Expected: {wanted}."
        raise ConfigError(f"{where}: {DATA} has not the keys of a dataset.", keys, AGAIN)
    return manifest, where, columns


def read_manifest(folder: Path) -> dict[str, Any]:
    """What `dataset.json` says."""
    path = folder / MANIFEST
    if not path.is_file():
        names = ", ".join(sorted(p.name for p in folder.iterdir())[:8]) or "nothing"
        raise ConfigError(
            f"{folder} is not a dataset: it has no {MANIFEST}.",
            f"It holds: {names}.",
            "Name a folder made by write_dataset, a D4RL file inside it, or minari:NAME.",
        )
    if path.stat().st_size > MAX_MANIFEST_BYTES:
        raise ConfigError(f"{path} is larger than 1 MiB, so it is not a manifest.", fix=AGAIN)
    try:
        manifest = json.loads(path.read_bytes())
        version, name, env_id, digest = (manifest[key] for key in ("format", "name", "env_id", "sha256"))
        valid = isinstance(version, int) and isinstance(name, str) and isinstance(env_id, str | None)
        valid = valid and isinstance(digest[DATA], str)
    except DAMAGE as error:
        raise ConfigError(f"{path} is damaged.", f"{type(error).__name__}: {error}", AGAIN) from error
    if not valid:
        raise ConfigError(f"{path} is damaged.", "format, name, env_id or sha256 has the wrong type.", AGAIN)
    if version > FORMAT:
        raise ConfigError(
            f"{path} has format {version}; this version reads up to {FORMAT}.", fix="pip install -U rl-training"
        )
    return manifest


def _read_tensors(path: Path, read: Callable[[Path], dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    from safetensors import SafetensorError

    try:
        return read(path)
    except (SafetensorError, *DAMAGE) as error:
        raise ConfigError(f"{path} is damaged.", str(error), AGAIN) from error


def _nested(tensors: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """The inverse of `_flatten`."""
    columns: dict[str, Any] = {}
    for key, tensor in tensors.items():
        column, _, part = key.partition(".")
        if part:
            columns.setdefault(column, {})[part] = tensor
        else:
            columns[column] = tensor
    return columns


def _flatten(columns: dict[str, Any]) -> dict[str, NDArray[Any]]:
    flat: dict[str, NDArray[Any]] = {}
    for key, column in columns.items():
        flat |= {f"{key}.{part}": a for part, a in column.items()} if isinstance(column, dict) else {key: column}
    return flat
