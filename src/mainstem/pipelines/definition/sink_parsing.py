"""Sinks of a definition: what each kind of them is told, and what it is not."""

from __future__ import annotations

from mainstem.pipelines.definition.part_options import sink_options
from mainstem.pipelines.definition.pipeline import Mode, Sink, Text
from mainstem.pipelines.definition.section import Section

SINK_KINDS = ("topic", "parquet", "delta", "table", "console")
TABLES = ("parquet", "delta", "table")
RECORD_COLUMNS = ("key", "value", "headers", "partition", "timestamp")
CONSOLE_ROWS, CONSOLE_ROWS_MAX = 20, 1_000


def read_sink(name: str, kind: str, origin: str, section: Section, mode: Mode) -> Sink:
    """A sink of this kind; what is wrong with it is noted in the section."""
    output = section.choice("output", ("append", "update", "complete"), "append")
    if kind in TABLES and output != "append":
        section.problem(f"a {kind} sink takes `output: append` alone", section.place_of("output"))
    return Sink(
        name,
        kind,
        target=_rows_shown(section) if kind == "console" else section.text(kind, needed=True) or "-",
        place=section.place,
        origin=origin,
        output=output,
        columns=_columns(section) if kind == "topic" else {},
        partition_by=(section.words("partitionBy") or ()) if kind in ("parquet", "delta") else (),
        mode=_write_mode(section, mode) if kind == "parquet" else "error",
        options=sink_options(section, kind),
    )


def _columns(section: Section) -> dict[str, Text]:
    given = {column: section.text(column) for column in RECORD_COLUMNS}
    return {column: Text(text, section.text_line(column)) for column, text in given.items() if text is not None}


def _write_mode(section: Section, mode: Mode) -> str:
    if section.given(["mode"]) and mode is not Mode.BATCH:
        section.problem("`mode` has a meaning for a pipeline of mode batch: streams append", section.place_of("mode"))
    return section.choice("mode", ("error", "append", "overwrite"), "error")


def _rows_shown(section: Section) -> str:
    """`console: true`, or how many rows of each micro-batch at most."""
    found = section.node("console")
    given = None if found is None else found.value
    if given is True:
        return str(CONSOLE_ROWS)
    if isinstance(given, int) and 1 <= given <= CONSOLE_ROWS_MAX:
        return str(given)
    section.problem(f"`console` is true, or a number of rows from 1 to {CONSOLE_ROWS_MAX}", section.place_of("console"))
    return str(CONSOLE_ROWS)
