"""The arrays of a safetensors file: read into memory, or as views of the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DTYPES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8", "I64": "<i8",
    "F16": "<f2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip


def load_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Every array, copied into memory."""
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)


def mapped_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Every array as a view of the file, from which rows are read when they are looked at.

    What is written to such an array stays in memory: the file is never changed.
    """
    from safetensors import safe_open

    with safe_open(path, framework="numpy"):  # checks that the header describes the file, to the byte
        pass
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return {key: _mapped(path, 8 + length + entry["data_offsets"][0], entry) for key, entry in header.items()}


def _mapped(path: Path, offset: int, entry: dict[str, Any]) -> NDArray[Any]:
    dtype, shape = np.dtype(DTYPES[entry["dtype"]]), tuple(entry["shape"])
    if 0 in shape:
        return np.zeros(shape, dtype)  # nothing cannot be mapped
    # "c" is copy-on-write. A plain array costs less to index than the class of the map, which stays alive as its base.
    return np.memmap(path, dtype, "c", offset, shape).view(np.ndarray)
