"""From a tree to a definition. Everything is checked that can be checked without a broker and without Spark."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from mainstem.pipelines.definition.document import Node, read_yaml
from mainstem.pipelines.definition.errors import DefinitionRefused, FileLine, Problem
from mainstem.pipelines.definition.part_options import queue_options, table_options, topic_options
from mainstem.pipelines.definition.pipeline import (
    Action,
    Deduplicate,
    Expectation,
    Mode,
    Pipeline,
    Settings,
    Sink,
    Source,
    Step,
    Text,
    Watermark,
)
from mainstem.pipelines.definition.section import Section, as_duration
from mainstem.pipelines.definition.sink_parsing import SINK_KINDS, read_sink
from mainstem.pipelines.errors import InvalidOption
from mainstem.pipelines.source.starting_point import parse_offsets

PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
VIEW_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
PART_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
FUNCTION = re.compile(r"([^:]+\.py)?:[A-Za-z_]\w*")

TOPIC_KINDS = ("topic", "topics", "topicPattern")
SOURCE_KINDS = (*TOPIC_KINDS, "queue", "table", "files")
FILE_FORMATS = ("parquet", "json", "csv", "text", "orc", "delta", "table")
TABLE_FORMATS = ("delta", "table")
"""Read as they are when the run starts."""

T = TypeVar("T")


def parse_text(text: str, file: str, mode: Mode | None = None) -> Pipeline:
    """From YAML. Raises DefinitionRefused."""
    return parse(read_yaml(text, file), mode=mode)


def parse(root: Node, functions: Mapping[str, Any] | None = None, mode: Mode | None = None) -> Pipeline:
    """From a tree, and the functions that a Python file has brought along; `mode` comes before its own.

    Raises DefinitionRefused.
    """
    problems: list[Problem] = []
    top = Section(root, "a pipeline", problems)
    name = top.text("name", needed=True) or "-"
    if not PIPELINE_NAME.fullmatch(name) and name != "-":
        top.problem(
            f"the name {name!r} cannot be: letters, digits, dot, dash and underscore, at most 100", top.place_of("name")
        )
    written = Mode(top.choice("mode", [mode.value for mode in Mode], Mode.CONTINUOUS.value))
    mode = mode or written
    parts = _Parts(problems, mode)
    settings = parts.settings(top.section("settings", "`settings`"))
    sources = parts.named(top, "sources", "source", VIEW_NAME, parts.source)
    steps = parts.named(top, "steps", "step", VIEW_NAME, parts.step)
    expectations = parts.named(top, "expectations", "expectation", PART_NAME, parts.expectation)
    sinks = parts.named(top, "sinks", "sink", PART_NAME, parts.sink)
    top.end()
    for needed, found in (("sources", sources), ("sinks", sinks)):
        if not found and not top.sections(needed, needed):
            top.problem(f"a pipeline needs `{needed}`", top.place_of(needed))
    parts.check_whole(sources, sinks, expectations)
    if problems:
        raise DefinitionRefused(sorted(dict.fromkeys(problems), key=lambda problem: problem.place))
    return Pipeline(name, root.place.file, mode, settings, sources, steps, expectations, sinks, functions or {})


class _Parts:
    """Checks the parts of one definition, which know each other's names."""

    def __init__(self, problems: list[Problem], mode: Mode) -> None:
        self._problems = problems
        self._mode = mode
        self._views: dict[str, FileLine] = {}
        """Sources and steps so far, as SQL compares names: without case."""
        self._names: list[str] = []

    def named(
        self, top: Section, key: str, what: str, pattern: re.Pattern[str], read: Callable[[str, Section], T | None]
    ) -> dict[str, T]:
        """Parts by name, in the order of the file."""
        found: dict[str, T] = {}
        for name, section in top.sections(key, what).items():
            if not pattern.fullmatch(name):
                section.problem(f"the name {name!r} cannot be: letters, digits and underscores")
            part = read(name, section)
            section.end()
            if pattern is VIEW_NAME:
                if name.lower() in self._views:
                    section.problem(f"`{name}` is there already, at {self._views[name.lower()]}")
                self._views[name.lower()] = section.place
                self._names.append(name)
            if part is not None:
                found[name] = part
        return found

    def settings(self, section: Section) -> Settings:
        found = Settings(
            address=section.text("address"),
            http_address=section.text("httpAddress"),
            master=section.text("master"),
            trigger=section.duration("trigger") or Settings.trigger,
            checkpoint=section.text("checkpoint"),
            begin=section.text("from"),
            end=section.text("to"),
            spark=section.options("spark"),
        )
        for key, value in (("from", found.begin), ("to", found.end)):
            if value is None:
                continue
            if self._mode is not Mode.BATCH:
                section.problem(f"`{key}` has a meaning in mode batch alone", section.place_of(key))
            try:
                parse_offsets(key, value, False)
            except InvalidOption as refusal:
                section.problem(str(refusal).removeprefix("Option "), section.place_of(key))
        section.end()
        return found

    # Sources

    def source(self, name: str, section: Section) -> Source | None:
        kind = self._kind(section, SOURCE_KINDS)
        if kind is None:
            return None
        target = section.text(kind, needed=True) or "-"
        options = section.options("options")
        file_format, schema, is_stream = "", None, self._mode is not Mode.BATCH
        if kind in TOPIC_KINDS:
            options = topic_options(section, kind, target, options, is_batch=self._mode is Mode.BATCH)
        elif kind == "queue":
            if self._mode is Mode.BATCH:
                section.problem("a queue cannot be read in mode batch: what was settled is not there any more")
            options = queue_options(section, target, options)
        elif kind == "files":
            file_format = section.choice("format", FILE_FORMATS, "parquet")
            schema = section.text("schema")
            is_stream = section.flag("stream", False)
            if is_stream and schema is None:
                section.problem("a stream of files needs `schema`")
            if file_format in TABLE_FORMATS and (schema is not None or is_stream):
                section.problem(f"a table of format {file_format} has its own schema, and is no stream")
            if file_format in TABLE_FORMATS and options:
                section.problem(f"a table of format {file_format} has no options", section.place_of("options"))
            if is_stream and self._mode is Mode.BATCH:
                section.problem("`stream` has no meaning in mode batch", section.place_of("stream"))
        else:
            is_stream = False
            options = table_options(section, target, options)
        return Source(name, kind, target, section.place, options, file_format, schema, is_stream, *self._shape(section))

    def _kind(self, section: Section, kinds: tuple[str, ...]) -> str | None:
        given = section.given(kinds)
        if len(given) == 1:
            return given[0]
        said = f"`{'` and `'.join(given)}` are given" if given else "none is given"
        section.problem(f"one of {', '.join(kinds)} is needed; {said}")
        section.given(("format", "schema", "message", "start", "options", "watermark", "deduplicate", "stream", "from"))
        return None

    # Steps

    def step(self, name: str, section: Section) -> Step | None:
        given = section.given(("sql", "python", "from"))
        inputs = section.words("inputs")
        if len(given) != 1:
            said = f"`{'` and `'.join(given)}` are given" if given else "none is given"
            section.problem(f"one of sql, python, from is needed; {said}")
            section.given(("watermark", "deduplicate"))
            return None
        if inputs is not None and given[0] != "python":
            section.problem("`inputs` has a meaning with `python` alone", section.place_of("inputs"))
        for known in inputs or ():
            self._check_name(section, known, "inputs")
        text = section.text(given[0], needed=True) or "-"
        sql, python, origin = None, None, None
        match given[0]:
            case "sql":
                sql = Text(text, section.text_line("sql"))
            case "python":
                python = text
                if not FUNCTION.fullmatch(text):
                    section.problem(f"`python` is {text!r}; it is FILE.py:FUNCTION", section.place_of("python"))
            case _:
                origin = text
                self._check_name(section, text, "from")
        return Step(name, section.place, sql, python, inputs, origin, *self._shape(section))

    def _shape(self, section: Section) -> tuple[Watermark | None, Deduplicate | None]:
        """What sources and steps can be given beside their rows."""
        watermark = None
        found = section.node("watermark")
        if found is not None and isinstance(found.value, str):
            column, _, delay = found.value.strip().partition(" ")
            span = as_duration(delay)
            if span is None:
                section.problem("`watermark` is a column and a time span, as `at 10 minutes`", found.place)
            else:
                watermark = Watermark(column, span, found.place)
        elif found is not None:
            below = section.section("watermark", "`watermark`")
            watermark = Watermark(
                below.text("column", needed=True) or "-", below.duration("delay") or "0 seconds", below.place
            )
            below.end()
        by = section.words("deduplicate")
        return watermark, None if by is None else Deduplicate(by, section.place_of("deduplicate"))

    def _check_name(self, section: Section, name: str, key: str) -> None:
        if name.lower() not in self._views:
            near = difflib.get_close_matches(name, self._names, 1)
            hint = f"did you mean `{near[0]}`?" if near else f"there is {', '.join(self._names) or 'nothing'} before it"
            section.problem(
                f"`{key}` names {name!r}, which is neither a source nor a step; {hint}", section.place_of(key)
            )

    # Rules

    def expectation(self, name: str, section: Section) -> Expectation | None:
        on, rule = section.text("on", needed=True), section.text("rule", needed=True)
        action = Action(section.choice("action", [action.value for action in Action], Action.WARN.value))
        topic = section.text("topic")
        if action is Action.DEAD_LETTER and topic is None:
            section.problem("the action dead-letter needs `topic`, where the letters go")
        if action is not Action.DEAD_LETTER and topic is not None:
            section.problem("`topic` has a meaning with the action dead-letter alone", section.place_of("topic"))
        if on is None or rule is None:
            return None
        self._check_name(section, on, "on")
        return Expectation(name, section.place, on, Text(rule, section.text_line("rule")), action, topic)

    # Sinks

    def sink(self, name: str, section: Section) -> Sink | None:
        origin = section.text("from") or (self._names[-1] if self._names else "-")
        kind = self._kind(section, SINK_KINDS)
        if kind is None:
            return None
        self._check_name(section, origin, "from")
        return read_sink(name, kind, origin, section, self._mode)

    def check_whole(
        self, sources: Mapping[str, Source], sinks: Mapping[str, Sink], expectations: Mapping[str, Expectation]
    ) -> None:
        """What only the parts together can have wrong."""
        if self._mode is not Mode.BATCH and sources and not any(source.is_stream for source in sources.values()):
            first = next(iter(sources.values()))
            self._problems.append(
                Problem(first.place, f"no source is a stream, which mode {self._mode.value} needs: choose mode batch")
            )
        for name, rule in expectations.items():
            if name in sinks:
                self._problems.append(Problem(rule.place, f"a sink is called `{name}` too: choose another name"))
        queues = [source for source in sources.values() if source.kind == "queue"]
        written = len(sinks) + sum(rule.action is Action.DEAD_LETTER for rule in expectations.values())
        if queues and written > 1:
            self._problems.append(
                Problem(
                    queues[0].place,
                    "a pipeline that reads a queue has one sink and no dead letters of rules: each of several would get a "
                    "share of the messages. Write to a topic and read that; reject messages by a column `_verdict`",
                )
            )
