"""Documents keep to one width, and phrases that readers stumbled over do not come back."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WIDTH_MAX = 120
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SOURCES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")])
PHRASES = re.compile(
    r"\b(so many|whoever|of late|in vain|by and by|told and heard|how-manieth|0 o'clock)\b",
    re.IGNORECASE,
)
QUOTES = {"docs/writing.md", "tests/docs/test_papers.py"}
"""They name the phrases."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose_of(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines outside of code, tables and headings."""
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            is_code = not is_code
        elif not is_code and not line.startswith(("|", "#", "    ", "[")):
            yield number, line


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_lines_have_one_width(path: Path) -> None:
    # A line without a space beyond the first words cannot be broken: a link, a name.
    long = [
        number
        for number, line in prose_of(path.read_text(encoding="utf-8"))
        if len(line) > WIDTH_MAX and " " in line[:WIDTH_MAX].strip(" -*")
    ]
    assert long == [], f"{name_of(path)}: lines over {WIDTH_MAX} characters"


def test_phrases_that_readers_stumbled_over_are_gone() -> None:
    found = [
        f"{name_of(path)}:{number}: {match[0]}"
        for path in [*DOCUMENTS, *SOURCES]
        if name_of(path) not in QUOTES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (match := PHRASES.search(line))
    ]
    assert found == []
