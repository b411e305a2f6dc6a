"""Stops a run at the first NaN or infinity, naming where it came from, before anything of it is saved."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rl_training.data.batch import Chunk
from rl_training.errors import NonFiniteError
from rl_training.specs import ObsSpec


def check_chunk(chunk: Chunk, spec: ObsSpec, first_step: int) -> None:
    """Raise for the first non-finite observation or reward of a (T, N) chunk that began at env step `first_step`."""
    for name, array in _floats(chunk, spec):
        # The sum is non-finite whenever an element is (and, rarely, when finite values overflow: then nothing is found below).
        if math.isfinite(np.add.reduce(array, None, np.float64)):
            continue
        bad = np.argwhere(~np.isfinite(array))
        if not len(bad):
            continue
        t, env = int(bad[0][0]), int(bad[0][1])
        envs = chunk["reward"].shape[1]
        where = f"{name}{list(map(int, bad[0][2:])) or ''} of env {env} at env step {first_step + (t + 1) * envs}"
        raise NonFiniteError(
            f"The environment returned {array[tuple(bad[0])]} in {where}.",
            f"The action was {np.array2string(chunk['action'][t, env], precision=4)}; learning stopped before using it.",
            "Look at the environment with: rl-training check-env ENV",
            {"env": env, "env_step": first_step + (t + 1) * envs, "what": name, **_history(chunk, spec, t, env)},
        )


def _history(chunk: Chunk, spec: ObsSpec, t: int, env: int) -> dict[str, Any]:
    """What that env was given and returned since the last learning phase."""
    keys = ("action", "reward", "terminated", "truncated")
    history = {key: chunk[key][: t + 1, env].tolist() for key in keys}
    for leaf, array in zip(spec.leaves, spec.arrays(chunk["obs"])):
        if not leaf.is_image:
            history[f"obs {leaf.key}".strip()] = array[: t + 1, env].tolist()
    return history


def _floats(chunk: Chunk, spec: ObsSpec) -> list[tuple[str, Any]]:
    pairs = [("reward", chunk["reward"])]
    for key, label in (("obs", "observation"), ("next_obs", "observation")):
        for leaf, array in zip(spec.leaves, spec.arrays(chunk[key])):
            if not leaf.is_image:
                pairs.append((f"{label} {leaf.key}".strip(), array))
    return pairs


def check_metrics(series: dict[str, tuple[list[int], np.ndarray]]) -> None:
    """Raise for the first non-finite metric; each series holds update numbers and the values at them."""
    worst: tuple[int, str, float] | None = None
    for name, (updates, values) in series.items():
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad) and (worst is None or updates[bad[0]] < worst[0]):
            worst = (updates[bad[0]], name, float(values[bad[0]]))
    if worst is not None:
        raise NonFiniteError(
            f"{worst[1]} is {worst[2]} at update {worst[0]}.",
            "The last good checkpoint is kept.",
            "Try a smaller --algorithm.learning-rate, or --model.normalize-obs true when observations are large.",
            {"update": worst[0], "metric": worst[1]},
        )
