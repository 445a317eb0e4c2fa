"""Frames from the sources, steps and rules of a definition.

They are made anew for every sink, because each sink is a query of its own: its sources report under its group. Only what a sink
needs is made. A step is taken to need every name before it that stands in its text; one too many costs a little.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession

from mainstem.pipelines.definition.errors import DefinitionRefused, Problem
from mainstem.pipelines.definition.files import load_module
from mainstem.pipelines.definition.pipeline import Deduplicate, Expectation, Pipeline, Source, Step, Watermark
from mainstem.pipelines.running.context import RunContext
from mainstem.pipelines.running.error_messages import errors_at, errors_in_python
from mainstem.pipelines.running.expectations import apply_expectation, broken, observed
from mainstem.pipelines.tables.delta import read_delta
from mainstem.pipelines.tables.reading import read_current, read_table, read_topic

TABLES: dict[str, Callable[[SparkSession, str], DataFrame]] = {"delta": read_delta, "table": read_table}
SESSION_PARAMETER = "spark"
"""A function with a parameter of this name is given the session."""


class Frames:
    """The frames of one sink."""

    def __init__(self, context: RunContext, sink: str) -> None:
        self._context = context
        self._pipeline = context.pipeline
        self._sink = sink
        self._functions: dict[str, Callable[..., Any]] = dict(context.pipeline.functions)
        self.observations: dict[str, Observation] = {}
        """Of a batch run: what was counted of rules, once their rows are written."""

    def rows(self, origin: str) -> DataFrame:
        """What a source or step gives, without the rows that its rules take out."""
        return self._build(origin, None)

    def broken_rows(self, rule: Expectation) -> DataFrame:
        """What breaks a rule, of the rows that those before it have left."""
        return self._build(rule.on, rule)

    def _build(self, origin: str, until: Expectation | None) -> DataFrame:
        session = self._context.session
        wanted = self._needed(origin)
        found: dict[str, DataFrame] = {}
        try:
            for name in wanted:
                frame = self._frame(name, found)
                last = name.lower() == origin.lower()
                frame = self._ruled(name, frame, until if last else None)
                found[name.lower()] = frame
                frame.createOrReplaceTempView(name)
        finally:
            for name in found:
                session.catalog.dropTempView(name)
        return found[origin.lower()]

    # What is needed

    def _needed(self, origin: str) -> list[str]:
        """In the order of the file."""
        names = [*self._pipeline.sources, *self._pipeline.steps]
        wanted = {origin.lower()}
        for name in reversed(names):
            step = self._pipeline.steps.get(name)
            if name.lower() in wanted and step is not None:
                wanted |= {before.lower() for before in self._inputs(step, names[: names.index(name)])}
        return [name for name in names if name.lower() in wanted]

    def _inputs(self, step: Step, before: list[str]) -> list[str]:
        if step.origin is not None:
            return [step.origin]
        if step.sql is not None:
            words = {word.lower() for word in re.findall(r"\w+", step.sql.text)}
            return [name for name in before if name.lower() in words]
        return self._arguments(step, before)

    def _arguments(self, step: Step, before: list[str]) -> list[str]:
        if step.inputs is not None:
            return list(step.inputs)
        parameters = [name for name in inspect.signature(self._function(step)).parameters if name != SESSION_PARAMETER]
        for name in parameters:
            if name not in before:
                text = f"the function has a parameter {name!r}, which is neither a source nor a step before it"
                raise DefinitionRefused([Problem(step.place, text)])
        return parameters

    def _function(self, step: Step) -> Callable[..., Any]:
        assert step.python is not None
        if step.python not in self._functions:
            file, _, name = step.python.rpartition(":")
            module = load_module(self._context.code / file)
            function = getattr(module, name, None)
            if not callable(function):
                raise DefinitionRefused([Problem(step.place, f"{file} has no function {name!r}")])
            self._functions[step.python] = function
        return self._functions[step.python]

    # How it is made

    def _frame(self, name: str, found: dict[str, DataFrame]) -> DataFrame:
        source = self._pipeline.sources.get(name)
        if source is not None:
            with errors_at(source.place):
                return _shaped(self._read(source), source.watermark, source.deduplicate)
        step = self._pipeline.steps[name]
        return _shaped(self._step(step, found), step.watermark, step.deduplicate)

    def _step(self, step: Step, found: dict[str, DataFrame]) -> DataFrame:
        if step.origin is not None:
            return found[step.origin.lower()]
        if step.sql is not None:
            with errors_at(step.sql.place):
                return self._context.session.sql(step.sql.text)
        return self._call(step, found)

    def _call(self, step: Step, found: dict[str, DataFrame]) -> DataFrame:
        function = self._function(step)
        given = {name: found[name.lower()] for name in self._arguments(step, list(self._pipeline_names()))}
        with errors_in_python(step.place, inspect.getsourcefile(function) or ""):
            if step.inputs is not None:
                frame = function(*given.values())
            else:
                if SESSION_PARAMETER in inspect.signature(function).parameters:
                    given[SESSION_PARAMETER] = self._context.session  # type: ignore[assignment]
                frame = function(**given)
        if not isinstance(frame, DataFrame):
            text = f"the function gave a {type(frame).__name__}; it must give a DataFrame"
            raise DefinitionRefused([Problem(step.place, text)])
        return frame

    def _pipeline_names(self) -> list[str]:
        return [*self._pipeline.sources, *self._pipeline.steps]

    def _read(self, source: Source) -> DataFrame:
        context = self._context
        session = context.session
        reader: Any = session.readStream if source.is_stream else session.read
        if source.file_format in TABLES:
            return TABLES[source.file_format](session, context.path(source.target))
        if source.kind == "files":
            reader = reader.format(source.file_format).options(**source.options)
            if source.schema is not None:
                reader = reader.schema(source.schema)
            loaded: DataFrame = reader.load(context.path(source.target))
            return loaded
        options = {**context.broker_options(), **source.options}
        named = {name.lower() for name in options}
        if source.is_stream and source.kind != "queue" and not named & {"group", "kafka.group.id"}:
            options["group"] = context.group(self._sink)
        if not context.is_stream and source.kind != "table":
            options = self._range(named) | options
        if source.kind == "table":
            del options["topic"]
            # in a stream read_topic would be the topic as of the start, for good
            read = read_current if context.is_stream else read_topic
            return read(session, source.target, options)
        rows: DataFrame = reader.format("mainstem").options(**options).load()
        return rows

    def _range(self, named: set[str]) -> dict[str, str]:
        """The times of a batch run, where the source does not say its own."""
        settings = self._pipeline.settings
        options = {}
        if settings.begin is not None and not any(name.startswith("starting") for name in named):
            options = {"startingOffsets": settings.begin, "startingOffsetsByTimestampStrategy": "latest"}
        if settings.end is not None and not any(name.startswith("ending") for name in named):
            options["endingOffsets"] = settings.end
        return options

    # Rules

    def _ruled(self, name: str, frame: DataFrame, until: Expectation | None) -> DataFrame:
        for rule in self._pipeline.expectations.values():
            if rule.on.lower() != name.lower():
                continue
            with errors_at(rule.rule.place):
                if rule is until:
                    return broken(frame, rule)
                if until is None and watcher(self._pipeline, rule, self._reaches) == self._sink:
                    frame = self._watched(frame, rule)
                frame = apply_expectation(frame, rule)
        return frame

    def _watched(self, frame: DataFrame, rule: Expectation) -> DataFrame:
        if self._context.is_stream:
            return observed(frame, rule)
        self.observations[rule.name] = Observation()
        return observed(frame, rule, self.observations[rule.name])

    def _reaches(self, origin: str, name: str) -> bool:
        return name.lower() in {needed.lower() for needed in self._needed(origin)}


def watcher(pipeline: Pipeline, rule: Expectation, reaches: Callable[[str, str], bool]) -> str | None:
    """The sink whose query counts the rows that break a rule: the first one that they would reach."""
    for sink in pipeline.sinks.values():
        if reaches(sink.origin, rule.on):
            return sink.name
    return None


def _shaped(frame: DataFrame, watermark: Watermark | None, deduplicate: Deduplicate | None) -> DataFrame:
    if watermark is not None:
        with errors_at(watermark.place):
            frame = frame.withWatermark(watermark.column, watermark.delay)
            if watermark.column not in frame.columns:
                text = f"there is no column `{watermark.column}`; there are {', '.join(frame.columns)}"
                raise DefinitionRefused([Problem(watermark.place, text)])
    if deduplicate is not None:
        with errors_at(deduplicate.place):
            by = list(deduplicate.by)
            if watermark is not None and frame.isStreaming:
                return frame.dropDuplicatesWithinWatermark(by)
            return frame.dropDuplicates(by)
    return frame
