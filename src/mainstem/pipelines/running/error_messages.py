"""What Spark says of an error, as one sentence with the file and line of the definition; no Java on the way.

Spark names the line within the SQL it was given: while a plan is made as `line 2 pos 7`, while it runs as a part of the
text under `== SQL (line 2, position 7) ==`, which is looked for in the steps of the pipeline.
"""

from __future__ import annotations

import contextlib
import re
import traceback
from collections.abc import Iterator

from pyspark.errors import PySparkException

from mainstem.model.errors import MainstemError
from mainstem.pipelines.definition.errors import DefinitionRefused, FileLine, Problem
from mainstem.pipelines.definition.pipeline import Pipeline, Text
from mainstem.pipelines.errors import sentence_in

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] ([^\n]+)")
_OUR_OWN = re.compile(r"\bmainstem\.[\w.]+: ([^\n]+)")
_LINE = re.compile(r"(?:; |\()line (\d+),? pos(?:ition)? \d+")
_RUNTIME = re.compile(r"== SQL(?: of [^(\n]*)? \(line (\d+), position \d+\) ==\n([^\n]*)")
_PYTHON = re.compile(r'File "([^"]+)", line (\d+), in [^\n]+')
_LAST_LINE = re.compile(r"^((?:\w+\.)*\w*(?:Error|Exception|Interrupt|Warning)\b[^\n]*)", re.MULTILINE)
_WRAPPERS = frozenset({"STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR", "FOREACH_USER_FUNCTION_ERROR"})
_TAIL = re.compile(r"\s*(?:SQLSTATE: \w+)?(?:(?:; line \d+ pos \d+)|(?: \(line \d+, pos \d+\)))?;?\s*$")
SENTENCE_MAX = 2_000


@contextlib.contextmanager
def errors_at(place: FileLine) -> Iterator[None]:
    """Around what makes a plan: an error of Spark's is told with the line that it is about."""
    try:
        yield
    except PySparkException as error:
        raise DefinitionRefused([Problem(_moved(place, str(error)), sentence(error))]) from None
    except DefinitionRefused:
        raise
    except MainstemError as error:
        raise DefinitionRefused([Problem(place, str(error))]) from None


@contextlib.contextmanager
def errors_in_python(place: FileLine, file: str) -> Iterator[None]:
    """Around a function of the user's: an error is told with the line of his file, if it came that far."""
    try:
        yield
    except (MainstemError, KeyboardInterrupt):
        raise
    except Exception as error:  # noqa: BLE001 - whatever his code raises is told
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        where = FileLine(file, frames[-1].lineno or 1) if frames else place
        text = sentence(error) if isinstance(error, PySparkException) else f"{type(error).__name__}: {error}"
        raise DefinitionRefused([Problem(where, text)]) from None


def sentence(error: BaseException) -> str:
    """The innermost thing that went wrong, in one line."""
    text = str(error)
    if isinstance(error, MainstemError):
        return text
    found = _OUR_OWN.search(text)
    if found:
        return found[1].strip()
    conditions = [match for match in _CONDITION.finditer(text) if match[1] not in _WRAPPERS]
    in_python = _of_python(text)
    if in_python and (not conditions or "Python worker" in text or "Traceback" in text):
        return in_python
    if conditions:
        last = conditions[-1]
        return f"[{last[1]}] {_TAIL.sub('', last[2])}"[:SENTENCE_MAX]
    return sentence_in(error)[:SENTENCE_MAX]


def sentence_of(pipeline: Pipeline, error: BaseException) -> str:
    """The same of an error while the pipeline ran, with the place in its file where that is known."""
    said = sentence(error)
    where = _place_of(pipeline, str(error))
    return f"{where}: {said}" if where is not None and not said.startswith(where.file) else said


def _of_python(text: str) -> str | None:
    """From the traceback of a worker: the line of the user's file, and the error."""
    if "Traceback" not in text:
        return None
    files = [match for match in _PYTHON.finditer(text) if "/pyspark/" not in match[1] and "/py4j/" not in match[1]]
    ends = _LAST_LINE.findall(text)
    if not ends:
        return None
    said = str(ends[-1]).strip()
    return f"{files[-1][1]}:{files[-1][2]}: {said}"[:SENTENCE_MAX] if files else said[:SENTENCE_MAX]


def _moved(place: FileLine, text: str) -> FileLine:
    """From the line of a text to that of the file."""
    found = _LINE.search(text)
    return place if found is None else FileLine(place.file, place.line + int(found[1]) - 1)


def _place_of(pipeline: Pipeline, text: str) -> FileLine | None:
    found = _RUNTIME.search(text)
    if found is None:
        return None
    line, fragment = int(found[1]), found[2].strip()
    for written in _texts(pipeline):
        lines = written.text.splitlines()
        if line <= len(lines) and fragment and fragment in lines[line - 1]:
            return FileLine(written.place.file, written.place.line + line - 1)
    return None


def _texts(pipeline: Pipeline) -> Iterator[Text]:
    for step in pipeline.steps.values():
        if step.sql is not None:
            yield step.sql
    for rule in pipeline.expectations.values():
        yield rule.rule
    for sink in pipeline.sinks.values():
        yield from sink.columns.values()
