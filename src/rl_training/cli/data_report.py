"""The page of `rl-training data inspect`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rl_training.cli.data_env import Known
from rl_training.data.dataset import Dataset
from rl_training.data.summary import Dimension, dimensions, duplicates, ends, leaves, lengths, quartiles
from rl_training.envs.reference_scores import reference

MAX_DIMENSIONS = 30  # lines for the numbers of one column


def report(dataset: Dataset, known: Known) -> str:
    """Columns, episodes, returns, rewards, actions and coverage, one block each."""
    head = f"{dataset.source}   of {known.env_id or 'an environment it does not name'}   sha256 {dataset.sha256[:12]}"
    notes = [f"note      {known.note}"] if known.note else []
    return "\n".join([head, *notes, *_columns(dataset), *_episodes(dataset, known), *_rewards(dataset), *_actions(dataset),
                      *_coverage(dataset)])  # fmt: skip


def _columns(dataset: Dataset) -> list[str]:
    columns = {name: a for key, value in dataset.columns().items() for name, a in leaves(value, key).items()}
    wide = max(map(len, columns))
    shapes = [f"{a.dtype}{list(a.shape[1:]) if a.ndim > 1 else ''}" for a in columns.values()]
    return [f"rows      {len(dataset):,}", *(f"  {name:<{wide}}  {shape}" for name, shape in zip(columns, shapes))]


def _episodes(dataset: Dataset, known: Known) -> list[str]:
    found, returns = ends(dataset, known.limit), dataset.episode_returns()
    limit = f" ({known.limit:,} steps)" if known.limit else ""
    finite = returns[np.isfinite(returns)]
    mean = float(finite.mean()) if len(finite) else float("nan")
    lines = [
        f"episodes  {len(returns):,}: {found.terminated:,} ended by the task, {found.time_limit:,} at the time limit{limit}, "
        f"{found.cut:,} cut, {found.unfinished:,} without an end",
        f"  length  {_spread(quartiles(lengths(dataset)), 0)}   mean {lengths(dataset).mean():,.1f}",
        f"  return  {_spread(quartiles(returns), 1)}   mean {mean:,.1f}",
    ]
    scores = reference(known.env_id or dataset.name)
    if scores is not None:
        lines.append(f"  normalized score of the mean  {scores.normalized(mean):.1f}   ({scores.note})")
    return lines


def _rewards(dataset: Dataset) -> list[str]:
    (one,) = dimensions(dataset.reward, "reward")
    return [f"reward    {one.low:g} to {one.high:g}, mean {one.mean:.4g}, {(dataset.reward == 0).mean():.1%} are zero"]


def _actions(dataset: Dataset) -> list[str]:
    if dataset.action.dtype != np.float32:
        columns = dataset.action.reshape(len(dataset), -1).T
        return ["action    how often each is chosen", *(f"  {_choices(column)}" for column in columns)]
    rows = dimensions(dataset.action, "action")
    return ["action    in [-1, 1]; at a bound", *_table(rows, at_bounds=True)]


def _choices(column: np.ndarray) -> str:
    values, counts = np.unique(column, return_counts=True)
    shown = [f"{value}: {count / len(column):.1%}" for value, count in zip(values[:MAX_DIMENSIONS], counts)]
    return "   ".join([*shown, *(["..."] if len(values) > MAX_DIMENSIONS else [])])


def _coverage(dataset: Dataset) -> list[str]:
    rows = [row for name, column in leaves(dataset.obs, "obs").items() for row in dimensions(column, name)]
    constant = [row.name for row in rows if row.constant]
    lines = [f"coverage  {duplicates(dataset):.2%} of the rows repeat another", *_table(rows)]
    if constant:
        lines.append(f"  constant: {', '.join(constant[:MAX_DIMENSIONS])}")
    return lines


def _table(rows: Sequence[Dimension], at_bounds: bool = False) -> list[str]:
    wide = max(len(row.name) for row in rows)
    lines = [f"  {'':<{wide}}  {'min':>10}  {'mean':>10}  {'std':>10}  {'max':>10}" + ("  at bound" if at_bounds else "")]
    for row in rows[:MAX_DIMENSIONS]:
        numbers = "  ".join(f"{value:>10.4g}" for value in (row.low, row.mean, row.std, row.high))
        lines.append(f"  {row.name:<{wide}}  {numbers}" + (f"  {row.at_bounds:>8.1%}" if at_bounds else ""))
    if len(rows) > MAX_DIMENSIONS:
        lines.append(f"  ... and {len(rows) - MAX_DIMENSIONS} more")
    return lines


def _spread(values: Sequence[float], digits: int) -> str:
    low, first, middle, third, high = (f"{value:,.{digits}f}" for value in values)
    return f"min {low}, quartiles {first} / {middle} / {third}, max {high}"
