"""State trees as JSON plus flat arrays, and back: exact, and nothing is run on the way.

In the JSON an object with one `$` key stands for what JSON cannot hold, e.g. {"$array": "/critic/weight"}; array names
are the path of the value (JSON pointer). Keys of the tree that begin with `$` are written with a second `$`.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any, TypeAlias

import numpy as np
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors

from rl_training.state import ChunkedArray, Tree

Arrays: TypeAlias = dict[str, np.ndarray]

_DTYPES = {np.dtype(code) for code in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")}
_NON_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def split(tree: Tree) -> tuple[Any, Arrays, dict[str, ChunkedArray]]:
    """The tree as a JSON document, its arrays (NumPy and torch) and its chunked arrays, both by path."""
    arrays: Arrays = {}
    chunked: dict[str, ChunkedArray] = {}
    return _split(tree, "", arrays, chunked), arrays, chunked


def join(document: Any, arrays: Arrays, chunked: dict[str, ChunkedArray]) -> Tree:
    """The inverse of `split`; ValueError when the pieces do not fit exactly."""
    arrays, chunked = dict(arrays), dict(chunked)
    tree = _join(document, arrays, chunked)
    if arrays or chunked:
        raise ValueError(f"holds arrays that nothing refers to: {', '.join([*arrays, *chunked][:3])}")
    return tree


def to_json(document: Any) -> bytes:
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()


def arrays_to_bytes(arrays: Arrays) -> bytes:
    return bytes(save_safetensors(arrays))


def arrays_from_bytes(data: bytes) -> Arrays:
    """Arrays that can be written to, as the parts that take them back expect."""
    return {name: np.require(array, requirements="W") for name, array in load_safetensors(data).items()}


def _split(node: Tree, path: str, arrays: Arrays, chunked: dict[str, ChunkedArray]) -> Any:
    if isinstance(node, dict):
        document = {}
        for key, value in node.items():
            if not isinstance(key, str):
                raise TypeError(f"state{path}: the key {key!r} is not a string")
            # JSON pointer escapes keep every path unique, whatever the keys contain.
            below = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            document["$" + key if key.startswith("$") else key] = _split(value, below, arrays, chunked)
        return document
    if isinstance(node, list):
        return [_split(value, f"{path}/{index}", arrays, chunked) for index, value in enumerate(node)]
    if isinstance(node, np.ndarray | np.generic):
        arrays[path] = _checked(np.asarray(node, order="C"), path)
        return {"$scalar" if isinstance(node, np.generic) else "$array": path}
    if isinstance(node, float) and not math.isfinite(node):
        return {"$float": repr(float(node))}
    if node is None or isinstance(node, bool | int | float | str):
        return node
    if isinstance(node, ChunkedArray):
        if len(node.versions) != len(node.chunks):
            raise TypeError(f"state{path}: {len(node.chunks)} chunks but {len(node.versions)} versions")
        for chunk in node.chunks:
            _checked(chunk, path)
        chunked[path] = node
        return {"$chunked": path}
    torch = sys.modules.get("torch")  # a tree cannot hold a tensor when nobody has imported torch, which takes seconds
    if torch is not None and isinstance(node, torch.Tensor):
        tensor = node.detach().cpu().contiguous()
        if tensor.dtype == torch.bfloat16:  # NumPy has no bfloat16
            arrays[path] = tensor.view(torch.int16).numpy()
            return {"$bfloat16": path}
        arrays[path] = _checked(tensor.numpy(), path)
        return {"$tensor": path}
    raise TypeError(f"state{path}: {type(node).__name__} cannot be saved; see rl_training.state for what can")


def _checked(array: np.ndarray, path: str) -> np.ndarray:
    if array.dtype not in _DTYPES:
        raise TypeError(f"state{path}: arrays of {array.dtype} cannot be saved; use bool, integers or floats")
    return array


def _join(node: Any, arrays: Arrays, chunked: dict[str, ChunkedArray]) -> Tree:
    if isinstance(node, list):
        return [_join(value, arrays, chunked) for value in node]
    if not isinstance(node, dict):
        return node
    if len(node) == 1:
        ((kind, name),) = node.items()
        if kind.startswith("$") and not kind.startswith("$$"):
            return _leaf(kind, name, arrays, chunked)
    tree = {}
    for key, value in node.items():
        if key.startswith("$") and not key.startswith("$$"):
            raise ValueError(f"has an unknown mark {key!r}")
        tree[key[1:] if key.startswith("$$") else key] = _join(value, arrays, chunked)
    return tree


def _leaf(kind: str, name: Any, arrays: Arrays, chunked: dict[str, ChunkedArray]) -> Tree:
    if kind == "$float" and name in _NON_FINITE:
        return _NON_FINITE[name]
    if kind == "$chunked" and name in chunked:
        return chunked.pop(name)
    if kind in ("$array", "$scalar", "$tensor", "$bfloat16") and name in arrays:
        array = arrays.pop(name)
        if kind == "$array":
            return array
        if kind == "$scalar":
            return array[()]
        import torch

        tensor = torch.from_numpy(array)
        return tensor.view(torch.bfloat16) if kind == "$bfloat16" else tensor
    raise ValueError(f"refers to {kind} {name!r}, which is not there")
