"""A definition that was checked."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mainstem.pipelines.definition.errors import FileLine


class Mode(enum.Enum):
    """How long a pipeline runs."""

    CONTINUOUS = "continuous"
    """Until it is stopped."""
    AVAILABLE_NOW = "available-now"
    """Until all is done that is there at its start; the next run goes on behind it."""
    BATCH = "batch"
    """Once, over a range of time, without memory of earlier runs."""


class Action(enum.Enum):
    """What becomes of a row that breaks a rule."""

    WARN = "warn"
    DROP = "drop"
    DEAD_LETTER = "dead-letter"
    FAIL = "fail"


@dataclass(frozen=True)
class Text:
    """SQL, and where its first line is."""

    text: str
    place: FileLine


@dataclass(frozen=True)
class Watermark:
    """How late rows may be by a column."""

    column: str
    delay: str
    place: FileLine


@dataclass(frozen=True)
class Deduplicate:
    """Of rows that are equal in these columns, the first one stays."""

    by: tuple[str, ...]
    place: FileLine


@dataclass(frozen=True)
class Source:
    """Where rows come from."""

    name: str
    kind: str
    """topic, topics, topicPattern, queue, table, files."""
    target: str
    place: FileLine
    options: Mapping[str, str] = field(default_factory=dict)
    """As Spark's reader takes them."""
    file_format: str = ""
    schema: str | None = None
    is_stream: bool = True
    watermark: Watermark | None = None
    deduplicate: Deduplicate | None = None


@dataclass(frozen=True)
class Step:
    """What becomes of them: one of sql, python, or `origin` as it is."""

    name: str
    place: FileLine
    sql: Text | None = None
    python: str | None = None
    """FILE:FUNCTION"""
    inputs: tuple[str, ...] | None = None
    """What a function is given; None: what its parameters are named after."""
    origin: str | None = None
    watermark: Watermark | None = None
    deduplicate: Deduplicate | None = None


@dataclass(frozen=True)
class Expectation:
    """A rule that each row keeps."""

    name: str
    place: FileLine
    on: str
    rule: Text
    action: Action
    topic: str | None = None
    """Of dead letters."""


@dataclass(frozen=True)
class Sink:
    """Where rows go."""

    name: str
    kind: str
    """topic, parquet, delta, table, console."""
    target: str
    place: FileLine
    origin: str
    """The source or step that is written."""
    output: str = "append"
    """append, update, complete."""
    columns: Mapping[str, Text] = field(default_factory=dict)
    """Of a topic's record, as SQL over the row."""
    partition_by: tuple[str, ...] = ()
    mode: str = "error"
    """Of a batch write to files: error, append, overwrite."""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """How it runs."""

    address: str | None = None
    http_address: str | None = None
    master: str | None = None
    trigger: str = "1 second"
    checkpoint: str | None = None
    begin: str | None = None
    end: str | None = None
    spark: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Pipeline:
    """All of it."""

    name: str
    file: str
    mode: Mode
    settings: Settings
    sources: Mapping[str, Source]
    steps: Mapping[str, Step]
    expectations: Mapping[str, Expectation]
    sinks: Mapping[str, Sink]
    functions: Mapping[str, Any] = field(default_factory=dict)
    """What a Python file gave itself, by the name that steps use for it."""

    def python_files(self) -> list[str]:
        """The files that steps name, each once."""
        named = [step.python.rpartition(":")[0] for step in self.steps.values() if step.python]
        return list(dict.fromkeys(name for name in named if name))
