"""Which modules run as machine code is decided by their sources, never by chance."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mainstem.compiled

PACKAGE = Path(mainstem.compiled.__file__).parent
SUFFIX = mainstem.compiled.SUFFIX
REPORT = """
import importlib, json, sys
import mainstem.compiled
module = importlib.import_module("mainstem.storage.local.wal.stored_group")
print(json.dumps([mainstem.compiled.description, len(mainstem.compiled.in_use), module.__file__]))
"""

needs_compiled = pytest.mark.skipif(
    not list((PACKAGE / "_compiled").glob(f"*{SUFFIX}")), reason="nothing is compiled here"
)


def report(source: Path, **environment: str) -> tuple[str, int, str]:
    inherited = {name: value for name, value in os.environ.items() if name != "MAINSTEM_PURE"}
    output = subprocess.run(
        [sys.executable, "-c", REPORT],
        env={**inherited, "PYTHONPATH": str(source), **environment},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    description, count, file = json.loads(output)
    return description, count, file


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the package with what was compiled of it."""
    shutil.copytree(PACKAGE, tmp_path / "mainstem", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@needs_compiled
def test_compiled_modules_are_used(checkout: Path) -> None:
    description, count, file = report(checkout)
    assert description.startswith("compiled")
    assert count == len(list(PACKAGE.rglob("*.pxd"))) - 1  # one holds nothing but C for the others
    assert file.endswith(SUFFIX)


@needs_compiled
def test_the_environment_asks_for_python(checkout: Path) -> None:
    description, count, file = report(checkout, MAINSTEM_PURE="1")
    assert "MAINSTEM_PURE" in description
    assert (count, Path(file).name) == (0, "stored_group.py")


@needs_compiled
@pytest.mark.parametrize("edited", ["storage/local/wal/stored_group.py", "storage/local/wal/stored_group.pxd"])
def test_an_edited_source_is_never_run_as_it_was(checkout: Path, edited: str) -> None:
    with (checkout / "mainstem" / edited).open("a") as file:
        file.write("# edited\n")
    description, count, path = report(checkout)
    assert "other sources" in description
    assert (count, Path(path).name) == (0, "stored_group.py")


@needs_compiled
def test_a_module_that_is_gone_takes_the_others_with_it(checkout: Path) -> None:
    (checkout / "mainstem/_compiled" / f"mainstem.gone-0123456789abcdef{SUFFIX}").write_bytes(b"")
    assert report(checkout)[1] == 0


def test_without_compiled_modules_all_is_python(checkout: Path) -> None:
    shutil.rmtree(checkout / "mainstem/_compiled", ignore_errors=True)
    description, count, file = report(checkout)
    assert description == "pure Python (not compiled)"
    assert (count, Path(file).name) == (0, "stored_group.py")
