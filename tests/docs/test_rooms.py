"""Folders stay small, and tests share nothing but `tests/support` and what lies above them."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SUPPORT = "tests/support"
PACKAGE_MODULES_MAX = 15
TEST_FOLDER_MODULES_MAX = 20

# Exceptions. Each number is what there is today, and may only become smaller.
TEST_MODULES_IMPORTED = {"tests/unit/broker/queues": 2, "tests/simulation": 1}
PACKAGES = {"tests/simulation"}
FOREIGN_HELPERS = {
    ("tests/unit/simulation", "tests/simulation"): 5,  # these are the tests of the simulation itself
}


class Import(NamedTuple):
    """One module of the tests that another one imports. Paths are relative to the repository."""

    importer: Path
    imported: Path

    @property
    def is_of_a_test(self) -> bool:
        return self.imported.name.startswith("test_")

    @property
    def is_foreign(self) -> bool:
        """Whether it comes from a folder that is neither shared nor the importer's own, nor one above it."""
        home = self.imported.parent
        return not home.is_relative_to(SUPPORT) and home not in self.importer.parents

    def __str__(self) -> str:
        return f"{self.importer} imports {self.imported}"


def imports_in(source: str, importer: Path) -> Iterator[Import]:
    """Every import of a module of the tests, wherever in the source it stands."""
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            folder = ROOT / node.module.replace(".", "/")
            is_module = folder.with_suffix(".py").exists()
            names = [node.module] if is_module else [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            if name.startswith("tests."):
                yield Import(importer, Path(name.replace(".", "/")))


def all_imports() -> Iterator[Import]:
    for path in sorted((ROOT / "tests").rglob("*.py")):
        yield from imports_in(path.read_text(encoding="utf-8"), path.relative_to(ROOT))


def modules_by_folder(top: str) -> Counter[str]:
    files = (path.relative_to(ROOT) for path in (ROOT / top).rglob("*.py") if path.name != "__init__.py")
    return Counter(str(path.parent) for path in files)


def test_packages_hold_one_subject() -> None:
    large = {
        folder: count for folder, count in modules_by_folder("src/mainstem").items() if count > PACKAGE_MODULES_MAX
    }
    assert large == {}, f"more than {PACKAGE_MODULES_MAX} modules"


def test_test_folders_hold_one_subject() -> None:
    large = {folder: count for folder, count in modules_by_folder("tests").items() if count > TEST_FOLDER_MODULES_MAX}
    assert large == {}, f"more than {TEST_FOLDER_MODULES_MAX} modules"


def test_test_folders_are_no_packages() -> None:
    """pytest names a test by the packages it is in, and runs only the first of two tests that it names alike."""
    found = {str(path.parent.relative_to(ROOT)) for path in (ROOT / "tests").rglob("__init__.py")}
    assert found <= PACKAGES


def test_no_test_imports_a_test() -> None:
    found = [one for one in all_imports() if one.is_of_a_test]
    counts = Counter(str(one.importer.parent) for one in found)
    too_many = [one for one in found if counts[home := str(one.importer.parent)] > TEST_MODULES_IMPORTED.get(home, 0)]
    assert too_many == [], "what two tests need belongs into a module of its own"


def test_helpers_of_other_folders_stay_there() -> None:
    found = [one for one in all_imports() if one.is_foreign]
    known: Counter[tuple[str, str]] = Counter()
    unknown = []
    for one in found:
        pairs = [
            pair
            for pair in FOREIGN_HELPERS
            if one.importer.is_relative_to(pair[0]) and one.imported.is_relative_to(pair[1])
        ]
        if pairs:
            known[pairs[0]] += 1
        else:
            unknown.append(str(one))
    assert unknown == [], f"what several folders need belongs into {SUPPORT}"
    assert all(count <= FOREIGN_HELPERS[pair] for pair, count in known.items()), known


@pytest.mark.parametrize(
    ("importer", "source", "is_foreign", "is_of_a_test"),
    [
        ("tests/unit/wire/test_a.py", "from tests.support.clients.confluent import create", False, False),
        ("tests/unit/protocols/kafka/test_a.py", "from tests.unit.loop_turns import turns_measured", False, False),
        (
            "tests/clients/kafka/test_a.py",
            "def f():\n    from tests.clients.kafka.wire_client import ask",
            False,
            False,
        ),
        ("tests/clients/amqp/test_a.py", "from tests.clients.kafka.wire_client import ask", True, False),
        ("tests/clients/test_a.py", "import tests.clients.kafka.wire_client", True, False),
        ("tests/clients/kafka/test_a.py", "from tests.clients.kafka import test_kcat", False, True),
        ("tests/support/serving/a.py", "from tests.support.clients.confluent import create", False, False),
        ("tests/support/serving/a.py", "from tests.clients.kafka.wire_client import ask", True, False),
    ],
)
def test_what_counts(importer: str, source: str, is_foreign: bool, is_of_a_test: bool) -> None:
    (found,) = imports_in(source, Path(importer))
    assert (found.is_foreign, found.is_of_a_test) == (is_foreign, is_of_a_test)
