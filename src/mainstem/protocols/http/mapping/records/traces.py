"""Traces as they are asked for and shown."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE
from mainstem.broker.trace.stations import RecordPlace, Trace, What
from mainstem.protocols.http.mapping.contents import Content, decode_content

TEXT_MAX = 1_000


class TracePath(msgspec.Struct, frozen=True):
    """Which message."""

    id: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=TEXT_MAX,
            description="TOPIC:PARTITION:OFFSET, a traceparent or its trace id, a key, or a message id.",
        ),
    ]


class TraceQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to look for it."""

    by: Annotated[Literal["any", "key"], msgspec.Meta(description="key: the id is a key, whatever it looks like.")] = (
        "any"
    )
    topic: Annotated[str, msgspec.Meta(description="Look only here, and further back.")] = ""
    namespace: str = DEFAULT_NAMESPACE


class PlaceDocument(msgspec.Struct, frozen=True):
    """Where a record is."""

    namespace: str
    topic: str
    partition: int
    offset: int


class StationDocument(msgspec.Struct, frozen=True):
    """One thing that became of the message."""

    what: What
    place: PlaceDocument | None
    time_ms: int | None
    """Null: it is so, and nothing says since when."""
    who: str
    """The protocol of the publisher, the group, queue or subscription."""
    detail: str


class TracedDocument(msgspec.Struct, frozen=True):
    """A record that belongs to the message."""

    place: PlaceDocument
    time_ms: int
    key: Content
    traceparent: str


class TraceDocument(msgspec.Struct, frozen=True):
    """All that is known of a message."""

    records: list[TracedDocument]
    stations: list[StationDocument]
    """Those with a time first, in its order."""
    scanned: int
    """Records that were looked at."""
    complete: bool
    """Whether all that could be it was looked at; if not, name the topic."""


def describe_trace(trace: Trace) -> TraceDocument:
    """For its reader."""
    return TraceDocument(
        [
            TracedDocument(_place(one.place), one.time_ms, decode_content(one.key), one.traceparent)
            for one in trace.records
        ],
        [
            StationDocument(
                one.what, None if one.place is None else _place(one.place), one.time_ms, one.who, one.detail
            )
            for one in trace.stations
        ],
        trace.scanned,
        trace.is_complete,
    )


def _place(place: RecordPlace) -> PlaceDocument:
    return PlaceDocument(*place)
