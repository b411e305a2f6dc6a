"""Walk everything reachable from an object: every number, array, tensor, generator and closure, by its path."""

from __future__ import annotations

import random
import types
from collections import deque
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import torch

NUMBERS = (bool, int, float, complex)
PLAIN = (*NUMBERS, str, bytes, type(None), np.dtype, Enum, Path, range, slice, torch.dtype, torch.device)
OPAQUE = (type, types.ModuleType, types.BuiltinFunctionType, np.ufunc, property)


def walk(root: Any, name: str = "") -> dict[str, Any]:
    """Path -> value of every leaf. An object reached twice is a leaf that says where it was first; an array is one each time."""
    leaves: dict[str, Any] = {}
    seen: dict[int, str] = {}
    alive: list[Any] = []  # an id belongs to its object only while that lives

    def visit(node: Any, path: str) -> None:
        if isinstance(node, np.generic):
            node = node.item() if isinstance(node.item(), NUMBERS) else str(node)  # NumPy's float64 is Python's float
        if isinstance(node, PLAIN):
            leaves[path] = node
            return
        if _array(node, path):
            return
        if isinstance(node, OPAQUE):
            leaves[path] = f"{getattr(node, '__module__', '')}.{getattr(node, '__qualname__', node)}"
            return
        if id(node) in seen:
            leaves[path] = f"same as {seen[id(node)]}"
            return
        seen[id(node)] = path
        alive.append(node)
        if not _generator(node, path):
            leaves[f"{path}<type>"] = type(node).__qualname__
            for key, value in _children(node):
                visit(value, f"{path}{key}")

    def _array(node: Any, path: str) -> bool:
        if isinstance(node, torch.Tensor):
            leaves[path] = node.detach().cpu().numpy().copy()
            if node.grad is not None:
                leaves[f"{path}.grad"] = node.grad.cpu().numpy().copy()
        elif isinstance(node, np.ndarray) and node.dtype != object:
            leaves[path] = node.copy()
        else:
            return False
        return True

    def _generator(node: Any, path: str) -> bool:
        if isinstance(node, np.random.Generator | np.random.RandomState):
            bits = node.bit_generator.state if isinstance(node, np.random.Generator) else node.get_state(legacy=False)
            leaves[path] = repr(bits)
        elif isinstance(node, random.Random):
            leaves[path] = repr(node.getstate())
        else:
            return False
        return True

    visit(root, name)
    return leaves


def _children(node: Any) -> list[tuple[str, Any]]:
    """What an object holds, with the piece of path that leads there."""
    if isinstance(node, dict):
        return [(f"[{key!r}]", value) for key, value in node.items()]
    if isinstance(node, list | tuple | deque):
        return [(f"[{index}]", value) for index, value in enumerate(node)]
    if isinstance(node, set | frozenset):
        return [(f"[{index}]", value) for index, value in enumerate(sorted(node, key=repr))]
    if isinstance(node, np.ndarray):
        return [(f"[{index}]", value) for index, value in enumerate(node.ravel().tolist())]
    if isinstance(node, types.MethodType):
        return [(".__self__", node.__self__), (".__func__", node.__func__)]
    if isinstance(node, types.FunctionType):
        cells = zip(node.__code__.co_freevars, node.__closure__ or ())
        return [(f"<{variable}>", cell.cell_contents) for variable, cell in cells]
    attributes = dict(getattr(node, "__dict__", {}))
    for cls in type(node).__mro__:
        slots = vars(cls).get("__slots__", ())
        names = [slots] if isinstance(slots, str) else slots
        attributes |= {n: getattr(node, n) for n in names if n not in ("__dict__", "__weakref__") and hasattr(node, n)}
    return [(f".{key}", value) for key, value in attributes.items()]
