"""Every command and every code block of the README and the docs is executed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rl_training.algorithms import REGISTRY
from rl_training.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "benchmarks" / "README.md", ROOT / "CONTRIBUTING.md"]
ALGORITHMS = sorted((ROOT / "docs" / "algorithms").glob("*.md"))
SECTIONS = ["Idea", "The update", "When to use it", "What to watch", "Settings", "Reference"]
# Shown, not run here: they are what runs these tests, or take longer than a test may.
ELSEWHERE = re.compile(r"^(make (demo|test|learn|bench|crashtest)|python benchmarks/|source )")


def blocks(language: str) -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for index, text in enumerate(re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)):
            found.append((f"{page.name}-{index}", text))
    return found


@pytest.mark.parametrize(("name", "code"), [b for b in blocks("python") if "for phase in" not in b[1]], ids=lambda v: str(v)[:40])
def test_python_blocks_run(name: str, code: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, f"{name}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(("name", "code"), blocks("bash"), ids=lambda v: str(v)[:40])
def test_shell_blocks_run(name: str, code: str, tmp_path: Path) -> None:
    program = Path(sys.executable).parent / "rl-training"
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    for line in filter(None, (line.split("  #")[0].strip() for line in code.splitlines())):
        if ELSEWHERE.match(line):
            continue
        assert line.startswith("rl-training "), f"{name}: what is {line!r}?"
        words = [str(program), *line.split()[1:]]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", ALGORITHMS, ids=lambda page: page.stem)
def test_the_page_of_an_algorithm_runs_from_top_to_bottom(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one folder, so that a command finds the data that the Python above it wrote; in this process, which has torch."""
    monkeypatch.chdir(tmp_path)
    for language, code in re.findall(r"```(python|bash)\n(.*?)```", page.read_text(), re.DOTALL):
        if language == "python":
            exec(compile(code, str(page), "exec"), {})
            continue
        for program, *words in map(shlex.split, code.splitlines()):
            assert program == "rl-training" and main(words) == 0, f"{page.name}: {words}"


@pytest.mark.parametrize("name", [*REGISTRY, "her"])
def test_every_algorithm_has_a_page_with_all_its_parts(name: str) -> None:
    page = ROOT / "docs" / "algorithms" / f"{name}.md"
    assert page.exists(), f"write docs/algorithms/{name}.md"
    text = page.read_text()
    sections = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert [section for section in sections if section in SECTIONS] == SECTIONS, f"{sections}; a page has {SECTIONS}"
    assert [text.count(f"<!-- settings: {mark} -->") for mark in ("begin", "end")] == [1, 1], "where the settings are written"
    assert "```" in text.partition("## The update")[2].partition("\n## ")[0], "formulas in a code block"
    assert text.count("```python\n") == text.count("```bash\n") == 1, "one block each"
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    assert len(code.splitlines()) <= 6, code
    overview = (ROOT / "docs" / "algorithms.md").read_text()
    assert f"](algorithms/{name}.md)" in overview and (name == "her" or f"| [{name}](" in overview), "python benchmarks/tables.py"


def test_the_two_commands_open_the_readme() -> None:
    fenced = re.findall(r"```bash\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert [block.strip() for block in fenced[:2]] == ["make demo", "make test"]
    targets = (ROOT / "Makefile").read_text()
    assert re.search(r"^demo: .*\n\t\$\(BIN\)/rl-training demo$", targets, re.MULTILINE), targets
    assert "exec make test" in (ROOT / ".ci" / "run").read_text()


def test_links_lead_somewhere() -> None:
    for page in [*PAGES, *ALGORITHMS]:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
