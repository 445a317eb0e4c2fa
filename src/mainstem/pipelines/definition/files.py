"""Where definitions are: a YAML file, or a Python file with a function that is one.

    @mainstem.spark.pipeline(name="totals", sources={"orders": {"topic": "orders"}}, sinks={"out": {"topic": "totals"}})
    def totals(orders):
        return orders.groupBy("key").count()

The keys are those of YAML. The function is the last step: it is given the frames that its parameters are named after, and gives
one that sinks write unless they say `from`.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from mainstem.pipelines.definition.document import from_values
from mainstem.pipelines.definition.errors import DefinitionRefused, FileLine, Problem
from mainstem.pipelines.definition.parsing import parse, parse_text
from mainstem.pipelines.definition.pipeline import Mode, Pipeline

DECLARED = "__mainstem_pipeline__"
FUNCTION_STEP = "result"
"""The name of the step that the function of a Python file is."""


class Declared(NamedTuple):
    """What the decorator was told, and where."""

    values: dict[str, Any]
    line: int


def declare(values: dict[str, Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The decorator; see the module's text."""

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        setattr(function, DECLARED, Declared(values, function.__code__.co_firstlineno))
        return function

    return mark


def read_pipeline(path: Path, mode: Mode | None = None) -> Pipeline:
    """A definition from its file; `mode` comes before its own. Raises DefinitionRefused."""
    file = str(path)
    if path.suffix == ".py":
        return _from_python(path, mode)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise DefinitionRefused([Problem(FileLine(file, 1), f"the file cannot be read: {reason}")]) from None
    return parse_text(text, file, mode)


def load_module(path: Path) -> ModuleType:
    """A Python file, run. Raises DefinitionRefused, which names the line of the file that failed."""
    file = str(path)
    # Its own name, by which functions that Spark pickles are not looked up on executors: they are sent whole.
    spec = importlib.util.spec_from_file_location(f"_pipeline_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise DefinitionRefused([Problem(FileLine(file, 1), "there is no such file")])
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    sys.path.insert(0, str(path.parent.absolute()))
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise DefinitionRefused([Problem(FileLine(error.filename or file, error.lineno or 1), error.msg)]) from None
    except Exception as error:  # noqa: BLE001 - whatever his code raises is told
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
        line = frames[-1].lineno if frames else 1
        text = f"{type(error).__name__}: {error}"
        raise DefinitionRefused([Problem(FileLine(file, line or 1), text)]) from None
    finally:
        sys.path[:] = before
    return module


def _from_python(path: Path, mode: Mode | None) -> Pipeline:
    module = load_module(path)
    declared = [value for value in vars(module).values() if isinstance(getattr(value, DECLARED, None), Declared)]
    if len(declared) != 1:
        text = f"{len(declared)} functions are marked with @mainstem.spark.pipeline(...); there must be one"
        raise DefinitionRefused([Problem(FileLine(str(path), 1), text)])
    function = declared[0]
    values, line = getattr(function, DECLARED)
    steps = {**(values.get("steps") or {}), FUNCTION_STEP: {"python": f":{function.__name__}"}}
    root = from_values({**values, "steps": steps}, FileLine(str(path), line))
    return parse(root, {f":{function.__name__}": function}, mode)
