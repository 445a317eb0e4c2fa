"""A hot module twice in one process: compiled, as it is imported everywhere, and beside it as Python.

The module that runs as Python has everything it imports from `mainstem` as Python, too. So the classes of the two are not the
same: compare what they hold, not the objects.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

from mainstem import compiled

_pure: dict[str, ModuleType] = {}
"""Modules of `mainstem` as Python. They are kept, because they know each other."""


def as_python(name: str) -> ModuleType:
    """The module of this name as Python."""
    with _python_alone():
        return importlib.import_module(name)


def both_ways(name: str) -> list[ModuleType]:
    """The module of this name, first compiled, then as Python. Skips the test module that asks where nothing is compiled."""
    if not compiled.in_use:
        pytest.skip("nothing is compiled here", allow_module_level=True)
    return [importlib.import_module(name), as_python(name)]


def outcome(function: Callable[..., Any], *arguments: Any) -> object:
    """What a call returns, or the name of what it raises and its message."""
    try:
        return function(*arguments)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other way must raise it, too
        return type(error).__name__, str(error)


@contextmanager
def _python_alone() -> Iterator[None]:
    """Within it, `mainstem` is imported as Python, and nobody else sees that."""
    usual = _take_modules()
    finders = sys.meta_path[:]
    sys.meta_path[:] = [finder for finder in finders if type(finder).__name__ != "CompiledFinder"]
    asked = os.environ.get(compiled.PURE_VARIABLE)
    os.environ[compiled.PURE_VARIABLE] = "1"
    sys.modules.update(_pure)
    try:
        yield
    finally:
        _pure.update(_take_modules())
        sys.modules.update(usual)
        sys.meta_path[:] = finders
        if asked is None:
            del os.environ[compiled.PURE_VARIABLE]
        else:
            os.environ[compiled.PURE_VARIABLE] = asked


def _take_modules() -> dict[str, ModuleType]:
    """Remove `mainstem` from what is imported."""
    names = [name for name in sys.modules if name == "mainstem" or name.startswith("mainstem.")]
    return {name: sys.modules.pop(name) for name in names}
