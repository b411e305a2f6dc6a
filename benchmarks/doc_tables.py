"""The tables of docs/ that follow from the code: the settings of each algorithm, and which options combine with which algorithms.

`python benchmarks/tables.py` writes them and `--check` compares them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PARTS = {"her": ("sac", ("relabel", "relabel_ratio"))}  # pages about some settings that many algorithms have
LIMITS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}


def filled(page: Path, mark: str, content: str, text: str | None = None) -> str:
    """A page (or the `text` that it is to have) with `content` between its marks."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    head, rest = (page.read_text() if text is None else text).split(begin)
    return f"{head}{begin}\n{content}\n{end}{rest.split(end)[1]}"


def pages() -> Iterator[tuple[Path, str]]:
    """Every page of docs/ with such a table, and what it should hold."""
    for page in sorted((DOCS / "algorithms").glob("*.md")):
        if "<!-- settings: begin -->" in page.read_text():
            yield page, filled(page, "settings", settings(*PARTS.get(page.stem, (page.stem, ()))))
    yield DOCS / "combinations.md", filled(DOCS / "combinations.md", "combinations", combinations())


def table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def settings(name: str, only: tuple[str, ...] = ()) -> str:
    """The settings of an algorithm, then the defaults it has of its own for other settings, and the ones it refuses."""
    from rl_training.algorithms import find
    from rl_training.config import describe_fields
    from rl_training.config.names import settings_of

    agent, specs = find(name), settings_of(name)

    def rows() -> Iterator[Sequence[str]]:
        for key, kind, default, text in describe_fields(name):
            leaf = key.removeprefix("algorithm.")
            if leaf in only or (not only and (leaf != key or key in agent.defaults)):
                usual = "none" if default == "null" else default
                yield f"`{leaf}`", f"`{usual}`", within(kind, specs[key].limits), text.replace("|", "\\|")

    text = table(("setting", "default", "takes", "what it is"), rows())
    if agent.ignores and not only:
        text += f"\n\nRefused, because {name} would make no use of them: {', '.join(f'`{key}`' for key in agent.ignores)}."
    return text


def within(kind: str, limits: Mapping[str, Any]) -> str:
    """The type of a setting with its limits, such as "float > 0, <= 1 or none"."""
    signs = [f"{sign} {limits[key]:g}" for key, sign in LIMITS.items() if limits[key] is not None]
    first, union, rest = kind.replace("|", ", ").partition(" or ")
    return f"{first} {', '.join(signs)}".strip() + union + rest


def combinations() -> str:
    """Options against algorithms, as the contract tests try them."""
    sys.path.append(str(ROOT / "tests" / "contract"))
    from combinations import COMBINATIONS, EXCLUSIVE, NONE, OPTIONS

    from rl_training.algorithms import REGISTRY

    options = [option for option in OPTIONS if any(COMBINATIONS[name, option] != NONE for name in REGISTRY)]
    text = table(("algorithm", *options), ((name, *(COMBINATIONS[name, option] for option in options)) for name in REGISTRY))
    never = "; ".join(f"{one} with {other}" for one, other in EXCLUSIVE)
    return f"{text}\n\nRefused together: {never}."
