"""Which modules run as machine code is decided by their sources, never by chance."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
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


needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler here")


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
@pytest.mark.parametrize(
    "edited",
    ["storage/local/wal/stored_group.py", "storage/local/wal/stored_group.pxd", "wire/native.pxd", "native/crc32c.h"],
)
def test_an_edited_source_is_never_run_as_it_was(checkout: Path, edited: str) -> None:
    with (checkout / "mainstem" / edited).open("a") as file:
        file.write("\n")
    description, count, path = report(checkout)
    assert "other sources" in description
    assert (count, Path(path).name) == (0, "stored_group.py")


@pytest.mark.parametrize("change", ["edited", "added", "renamed", "removed"])
def test_a_changed_header_asks_for_other_files(checkout: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    monkeypatch.setattr(mainstem.compiled, "PACKAGE", checkout / "mainstem")
    monkeypatch.setattr(mainstem.compiled, "NATIVE", checkout / "mainstem/wire/native.pxd")
    monkeypatch.setattr(mainstem.compiled, "HEADERS", checkout / "mainstem/native")
    names = ["mainstem.wire.checksum", "mainstem.storage.answer_core"]
    header = checkout / "mainstem/native/crc32c.h"
    before = mainstem.compiled.file_names(names)
    assert mainstem.compiled.file_names(names) == before
    if change == "edited":
        header.write_text(header.read_text().replace("FOLDED_BYTES_MIN 512", "FOLDED_BYTES_MIN 513"))
    elif change == "added":
        header.with_name("another.h").write_text("")
    elif change == "renamed":
        header.rename(header.with_name("crc.h"))
    else:
        header.unlink()
    after = mainstem.compiled.file_names(names)
    assert set(before.values()).isdisjoint(after.values())


@needs_compiler
@pytest.mark.parametrize("header", sorted((PACKAGE / "native").glob("*.h")), ids=lambda path: path.name)
def test_a_header_needs_nothing_before_it_and_no_warning_is_hidden(header: Path, tmp_path: Path) -> None:
    """Modules are compiled without warnings, for those about what Cython writes."""
    source = tmp_path / "alone.c"
    source.write_text(f'#include "mainstem/native/{header.name}"\n')
    include = [f"-I{PACKAGE.parent}", f"-I{sysconfig.get_path('include')}", f"-I{sysconfig.get_path('platinclude')}"]
    command = [
        "cc",
        "-O2",
        "-fsyntax-only",
        "-Wall",
        "-Wextra",
        "-Wno-unused-parameter",
        "-Werror",
        *include,
        str(source),
    ]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr


def test_no_c_is_left_in_declarations() -> None:
    """An editor, a compiler's warnings and a sanitizer know files, not strings."""
    assert [path.name for path in PACKAGE.rglob("*.pxd") if "extern from *" in path.read_text()] == []


@needs_compiled
def test_a_wheel_holds_what_was_compiled_and_what_it_is_checked_against(tmp_path: Path) -> None:
    """Built in a copy, in which what is compiled here need not be compiled again."""
    root = PACKAGE.parents[1]
    for name in (".gitignore", "pyproject.toml", "hatch_build.py", "compile_core.py", "README.md"):
        shutil.copy(root / name, tmp_path)
    shutil.copytree(root / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", "."]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").iterdir()
    assert not wheel.name.endswith("-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    installed = tmp_path / "installed"
    for pattern in ("native/*.h", "**/*.pxd", "_compiled/*.so"):
        assert sorted(path.name for path in (installed / "mainstem").glob(pattern)) == sorted(
            path.name for path in PACKAGE.glob(pattern)
        )
    description, count, file = report(installed)
    assert description.startswith("compiled")
    assert count == len(list(PACKAGE.glob("_compiled/*.so")))
    assert file.startswith(str(installed))


@needs_compiled
def test_a_module_that_is_gone_takes_the_others_with_it(checkout: Path) -> None:
    (checkout / "mainstem/_compiled" / f"mainstem.gone-0123456789abcdef{SUFFIX}").write_bytes(b"")
    assert report(checkout)[1] == 0


def test_without_compiled_modules_all_is_python(checkout: Path) -> None:
    shutil.rmtree(checkout / "mainstem/_compiled", ignore_errors=True)
    description, count, file = report(checkout)
    assert description == "pure Python (not compiled)"
    assert (count, Path(file).name) == (0, "stored_group.py")
