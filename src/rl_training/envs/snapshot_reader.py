"""Trees of `snapshot_tree` -> Python objects, without calling a constructor or importing anything."""

from __future__ import annotations

import random
import sys
from collections import deque
from typing import Any

import numpy as np

from rl_training.envs.snapshot_tree import package_of, subspaces
from rl_training.errors import CheckpointError
from rl_training.state import Tree

_SEQUENCES: dict[str, Any] = {"tuple": tuple, "set": set, "frozenset": frozenset}


class TreeReader:
    """Tree -> objects, updating the objects of a newly built environment in place."""

    def __init__(self, roots: list[Any]) -> None:
        self._packages = {package_of(type(root)) for root in roots}
        self._known: dict[int, Any] = dict(enumerate(roots))

    def attributes(self, obj: Any, tree: dict[str, Tree], skip: frozenset[str] = frozenset()) -> None:
        """Give `obj` exactly the saved attributes, besides those that were kept."""
        for name in set(vars(obj)) - set(tree["values"]) - set(tree["kept"]) - skip:
            del vars(obj)[name]
        for name, value in tree["values"].items():
            vars(obj)[name] = self.value(value, vars(obj).get(name))

    def value(self, tree: Tree, current: Any = None) -> Any:
        """One value; `current` is what stands in its place now."""
        if not isinstance(tree, dict):
            return tree
        kind, content = tree["kind"], tree.get("value")
        if kind == "same":
            return self._known[tree["id"]]
        if kind in ("list", "dict", "object"):  # may contain themselves: known before they are filled
            return self._fill(tree, kind, content, current)
        made = self._make(tree, kind, content, current)
        if "id" in tree:
            self._known[tree["id"]] = made
        return made

    def _fill(self, tree: dict[str, Tree], kind: str, content: Any, current: Any) -> Any:
        if kind == "object":
            cls = self._class(tree["class"])
            made = current if type(current) is cls else object.__new__(cls)
            self._known[tree["id"]] = made
            self.attributes(made, tree)
            return made
        if kind == "list":
            items: list[Any] = self._known.setdefault(tree["id"], [])
            olds = current if isinstance(current, list) else []
            items.extend(self.value(item, olds[i] if i < len(olds) else None) for i, item in enumerate(content))
            return items
        entries: dict[Any, Any] = self._known.setdefault(tree["id"], {})
        for key_tree, item in content:
            key = self.value(key_tree)
            entries[key] = self.value(item, current.get(key) if isinstance(current, dict) else None)
        return entries

    def _make(self, tree: dict[str, Tree], kind: str, content: Any, current: Any) -> Any:
        if kind in _SEQUENCES:
            return _SEQUENCES[kind](self.value(item) for item in content)
        if kind == "space":
            for part, state in zip(subspaces(current), content, strict=True):
                part._np_random = None if state is None else _generator(state)
            return current
        if kind == "generator":
            return _generator(content)
        if kind == "random_state":
            made = np.random.RandomState()
            made.set_state(content)
            return made
        if kind == "random":
            twister = random.Random()
            twister.setstate((content[0], tuple(content[1]), content[2]))
            return twister
        if kind == "array":
            return np.array(content)
        if kind == "scalar":
            return np.asarray(content)[()]
        if kind == "float":
            return float(content)
        if kind == "bytes":
            return np.asarray(content, np.uint8).tobytes()
        if kind == "enum":
            return self._class(tree["class"])[content]
        if kind == "deque":
            return deque((self.value(item) for item in content), maxlen=tree["maxlen"])
        if kind == "objects":
            objects = np.empty(len(content), dtype=object)
            objects[:] = [self.value(item) for item in content]
            return objects.reshape(tree["shape"])
        raise CheckpointError(f"The saved environment state has an unknown kind of value: {kind!r}.")

    def _class(self, name: str) -> Any:
        """A class by name, out of modules that the environment itself has already imported: none is imported here."""
        module, _, qualname = name.partition(":")
        found: Any = sys.modules.get(module) if module.partition(".")[0] in self._packages else None
        for part in qualname.split("."):
            found = getattr(found, part, None)
        if not isinstance(found, type):
            raise CheckpointError(f"The saved environment state names the class {name}, which this environment lacks.")
        return found


def _generator(state: dict[str, Any]) -> np.random.Generator:
    name = state["bit_generator"]
    if name not in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"):
        raise CheckpointError(f"The saved environment state names an unknown random generator: {name!r}.")
    bits = getattr(np.random, name)()
    bits.state = state
    return np.random.Generator(bits)
