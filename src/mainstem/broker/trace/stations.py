"""What is told of a message: its stations."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

What: TypeAlias = Literal[
    "published", "read", "unread", "settled", "given", "waits", "retry", "dead", "edited", "redriven", "scheduled"
]


class RecordPlace(NamedTuple):
    """Where a record is."""

    namespace: str
    topic: str
    partition: int
    offset: int


class Station(NamedTuple):
    """One thing that became of a message. Without a time, it is known to be so, and not since when."""

    what: What
    place: RecordPlace | None
    time_ms: int | None
    who: str = ""
    """Protocol of the publisher, group, queue or subscription."""
    detail: str = ""


class TracedRecord(NamedTuple):
    """A record that belongs to the message."""

    place: RecordPlace
    time_ms: int
    key: bytes | None
    traceparent: str


class Trace(NamedTuple):
    """All that is known of a message."""

    records: list[TracedRecord]
    stations: list[Station]
    """Those with a time in its order, then those without."""
    scanned: int
    """Records that were looked at to find it."""
    is_complete: bool
    """Whether all was looked at that could be it."""


def in_order(stations: list[Station]) -> list[Station]:
    """By time; each once."""
    unique = list(dict.fromkeys(stations))
    return sorted(unique, key=lambda one: (one.time_ms is None, one.time_ms or 0))
