"""The options of sources and sinks. What the run would refuse, or what would do nothing there, is refused with the definition."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from mainstem.pipelines.definition.section import Section
from mainstem.pipelines.errors import InvalidOption
from mainstem.pipelines.options import COMMON, TIMEOUT, Options
from mainstem.pipelines.queue_mode.options import QueueOptions
from mainstem.pipelines.source.options import SourceOptions
from mainstem.pipelines.source.starting_point import parse_offsets

DEFAULT_START = "earliest"
"""A pipeline loses nothing that came before its first start, unless it is told to."""
COMPRESSION = "compression"
REGISTERED = ("value.format", "value.schema")
"""Of a topic sink whose values have a schema of the registry."""
PLACES = ("starting", "ending", "assign", "history", "min", "group", "max")
"""What the names of options begin with that say which part of a topic is read: of a table it is all."""


def topic_options(
    section: Section, kind: str, target: str, options: dict[str, str], *, is_batch: bool
) -> dict[str, str]:
    """Of a stream of topics, or of their records in a range of time."""
    options[kind] = target
    options |= _value_options(section)
    start = section.text("start")
    lowered = {option.lower() for option in options}
    if start is not None:
        options["startingOffsets"] = start
    elif not is_batch and not any(option.startswith("starting") for option in lowered):
        options["startingOffsets"] = DEFAULT_START
    with _refused(section):
        checked = SourceOptions(options)
        checked.starting(parse_offsets("start", DEFAULT_START, False))
        checked.ending()
        if is_batch:
            checked.refuse_limits()
        else:
            checked.refuse_ending()
    return options


def queue_options(section: Section, target: str, options: dict[str, str]) -> dict[str, str]:
    """Of a queue, or of topics under a subscription."""
    options |= _value_options(section) | {"subscription": target}
    with _refused(section):
        QueueOptions(options)
    return options


def table_options(section: Section, target: str, options: dict[str, str]) -> dict[str, str]:
    """Of a whole topic."""
    for name in options:
        if name.lower().startswith(PLACES):
            section.problem(f"a table is read whole: option `{name}` does nothing", section.place_of("options"))
    options |= _value_options(section) | {"topic": target}
    with _refused(section):
        SourceOptions(options)
    return options


def sink_options(section: Section, kind: str) -> dict[str, str]:
    """Of a sink that has any."""
    if kind not in ("topic", "parquet"):
        return {}
    options = section.options("options")
    if kind == "topic":
        with _refused(section):
            Options(options, (COMPRESSION, *REGISTERED))
        for name in options:
            if name.lower() in COMMON - {TIMEOUT}:
                section.problem(f"`{name}` is said in `settings`, for all of the pipeline", section.place_of("options"))
    return options


def _value_options(section: Section) -> dict[str, str]:
    """How values are read, in the names of the source's options."""
    keys = (("format", "value.format"), ("schema", "value.schema"), ("message", "value.message"))
    return {option: value for key, option in keys if (value := section.text(key)) is not None}


@contextlib.contextmanager
def _refused(section: Section) -> Iterator[None]:
    try:
        yield
    except InvalidOption as refusal:
        section.problem(str(refusal), section.place_of("options"))
