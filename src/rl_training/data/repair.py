"""A dataset with what can be mended mended, and a list of what was done. The source is never changed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rl_training.data.batch import tree_map
from rl_training.data.dataset import Dataset
from rl_training.data.findings import discontinuous, excess, not_finite
from rl_training.data.formats import BOUND_TOLERANCE
from rl_training.errors import ConfigError


def repair(dataset: Dataset) -> tuple[Dataset, list[str]]:
    """ConfigError where the data do not hold what a repair would need."""
    did: list[str] = []
    terminated, truncated = dataset.terminated.copy(), dataset.truncated.copy()
    if (both := terminated & truncated).any():
        truncated &= ~terminated
        did.append(f"cleared truncated where terminated is set as well: {_count(both.sum(), 'row')}")
    if len(broken := discontinuous(dataset)):
        truncated[broken] = True
        did.append(f"ended an episode at {_count(len(broken), 'row')} whose successor is not the next row")
    if not (terminated[-1] or truncated[-1]):
        truncated[-1] = True
        did.append("marked the last episode, which has no end, as cut off")
    mended = replace(dataset, terminated=terminated, truncated=truncated)
    mended, dropped = _without_bad_episodes(mended)
    did += dropped
    return _clipped(mended, did)


def _without_bad_episodes(dataset: Dataset) -> tuple[Dataset, list[str]]:
    bad = not_finite(dataset)
    if not bad.any():
        return dataset, []
    starts = dataset.episode_starts()
    lost = np.logical_or.reduceat(bad, starts)
    if lost.all():
        raise ConfigError(
            f"{dataset.source} cannot be repaired.", "Every episode has a NaN or an infinity.", "Record or download it again."
        )
    rows = np.repeat(~lost, np.diff(starts, append=len(dataset)))
    columns = {key: tree_map(lambda a: a[rows], column) for key, column in dataset.columns().items()}
    text = f"dropped {_count(lost.sum(), 'episode')} of {len(starts):,} with NaN or infinity ({_count((~rows).sum(), 'row')})"
    return replace(dataset, **columns), [text]


def _clipped(dataset: Dataset, did: list[str]) -> tuple[Dataset, list[str]]:
    outside = excess(dataset)
    if not outside.any():
        return dataset, did
    if outside.max() > BOUND_TOLERANCE:
        row = int(np.argmax(outside))
        raise ConfigError(
            f"{dataset.source} cannot be repaired: the action of row {row} is {dataset.action[row]}, far outside -1 to 1.",
            "Which action the environment took instead is not known.",
            "Name the environment with --env if its bounds are others, or record the data again.",
        )
    text = f"clipped the actions of {_count((outside > 0).sum(), 'row')}, outside by up to {outside.max():.1e}"
    return replace(dataset, action=dataset.action.clip(-1.0, 1.0)), [*did, text]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
