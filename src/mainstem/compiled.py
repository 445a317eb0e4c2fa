"""Hot modules as machine code, where a compiler was found, and as Python where none was. Both give the same results.

A module with a `.pxd` beside it can be compiled (`compile_core.py`, run by make). The `.pxd` adds C types, and C functions from
`native/`. Where the fastest way in C is not the fastest in Python, the module has one algorithm for each, chosen by
`cython.compiled`; tests/unit/differential compares them.

The compiled files lie in `_compiled/`, each under a name that holds a checksum of its sources. A file that does not match its
sources is never loaded. Compiled modules know each other's layout, so either all of them are used or none is.

`MAINSTEM_PURE=1` in the environment asks for Python alone.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

PACKAGE = Path(__file__).parent
DIRECTORY = PACKAGE / "_compiled"
NATIVE = PACKAGE / "wire" / "native.pxd"
"""C functions that compiled modules share."""
HEADERS = PACKAGE / "native"
"""C that declarations in `.pxd` files name."""
SUFFIX = EXTENSION_SUFFIXES[0]
"""Names the interpreter and the platform: another one's files are not even looked at."""
PURE_VARIABLE = "MAINSTEM_PURE"
_CHECKSUM_DIGITS = 16

in_use: tuple[str, ...] = ()
"""Names of the modules that run as machine code."""
description = "pure Python"
"""What runs, and why, for people."""


class Uncompiled:
    """Stands for the `cython` module where that is not installed: it is only needed for compiling."""

    compiled = False


def source_of(name: str) -> Path:
    """The Python file of a module."""
    return PACKAGE.joinpath(*name.split(".")[1:]).with_suffix(".py")


def file_names(names: Iterable[str]) -> dict[str, str]:
    """Under which name each of these modules is kept when it is compiled together with the others."""
    names = sorted(names)
    types = hashlib.sha256()
    for path in (NATIVE, *sorted(HEADERS.glob("*.[ch]")), *(source_of(name).with_suffix(".pxd") for name in names)):
        content = path.read_bytes()
        types.update(f"{path.relative_to(PACKAGE).as_posix()} {len(content)}\n".encode() + content)
    wanted = {}
    for name in names:
        checksum = types.copy()
        checksum.update(source_of(name).read_bytes())
        wanted[name] = f"{name}-{checksum.hexdigest()[:_CHECKSUM_DIGITS]}{SUFFIX}"
    return wanted


class CompiledFinder(MetaPathFinder):
    """Finds compiled modules before the import system looks for their sources."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The compiled module of this name, if there is one."""
        file = self._files.get(fullname)
        if file is None:
            return None
        return spec_from_file_location(fullname, file, loader=ExtensionFileLoader(fullname, str(file)))


def use_compiled() -> None:
    """Have compiled modules imported from now on, if there are any and all of them match their sources."""
    global in_use, description
    if os.environ.get(PURE_VARIABLE, "0") not in ("", "0"):
        description = f"pure Python ({PURE_VARIABLE} is set)"
        return
    try:
        found = {path.name for path in DIRECTORY.iterdir() if path.name.endswith(SUFFIX)}
    except OSError:
        found = set()
    if not found:
        description = "pure Python (not compiled)"
        return
    try:
        wanted = file_names(file.removesuffix(SUFFIX).rpartition("-")[0] for file in found)
    except OSError:
        wanted = {}
    if set(wanted.values()) != found:
        description = "pure Python (what was compiled is of other sources; `make setup` compiles anew)"
        return
    sys.meta_path.insert(0, CompiledFinder({name: DIRECTORY / file for name, file in wanted.items()}))
    in_use = tuple(wanted)
    description = f"compiled ({len(in_use)} modules)"
