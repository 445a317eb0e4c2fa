"""Schedules as they are asked for and shown."""

from __future__ import annotations

from typing import Annotated

import msgspec

from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE
from mainstem.broker.schedules import DUE_MS_MAX, Letter, Pending, Recurrence, Search, SearchPosition, Target, parse_id
from mainstem.protocols.http.errors import InvalidContent, InvalidParameter, NotScheduled
from mainstem.protocols.http.mapping.contents import (
    Content,
    decode_content,
    decode_header_block,
    encode_content,
    encode_header_block,
)
from mainstem.protocols.http.mapping.documents import PAGE_ITEMS_DEFAULT, Limit

DueMs = Annotated[int, msgspec.Meta(ge=0, le=DUE_MS_MAX, description="Milliseconds since 1970 UTC.")]
DelayMs = Annotated[int, msgspec.Meta(ge=0, le=DUE_MS_MAX)]
Partition = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class TargetDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a record goes: to a topic (or the queue of that name), or through an exchange."""

    topic: str | None = None
    partition: Partition | None = None
    """None: by key, or any."""
    exchange: str | None = None
    routing_key: str = ""
    namespace: str = DEFAULT_NAMESPACE


class ScheduleWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A record to be published later: `due_ms` or `delay_ms`."""

    target: TargetDocument
    value: Content = None
    key: Content = None
    headers: dict[str, Content] = {}
    due_ms: DueMs | None = None
    delay_ms: DelayMs | None = None


class ScheduleChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another time, or another content. What is not named stays as it is."""

    due_ms: DueMs | None = None
    delay_ms: DelayMs | None = None
    value: Content | msgspec.UnsetType = msgspec.UNSET
    headers: dict[str, Content] | msgspec.UnsetType = msgspec.UNSET


class ScheduleDocument(msgspec.Struct, frozen=True):
    """A record that waits."""

    id: str
    due_ms: int
    created_ms: int
    target: TargetDocument
    key: Content
    value: Content
    headers: dict[str, Content]


class SchedulePage(msgspec.Struct, frozen=True):
    """Some of what waits, roughly by due time."""

    pending: int
    """How many wait in all."""
    schedules: list[ScheduleDocument]
    next: str | None
    """Where the list goes on; a page may be short and still have a next one."""


class SchedulePath(msgspec.Struct, frozen=True):
    """Which one."""

    id: str


class ScheduleQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to look for."""

    namespace: str | None = None
    topic: Annotated[str | None, msgspec.Meta(description="Topic or routing key.")] = None
    exchange: str | None = None
    due_from_ms: DueMs = 0
    due_before_ms: DueMs = DUE_MS_MAX
    header: Annotated[str | None, msgspec.Meta(description="Name of a header; with `header_value`, its text.")] = None
    header_value: str | None = None
    after: Annotated[str, msgspec.Meta(description="Go on behind this place: from the answer before.")] = ""
    limit: Limit = PAGE_ITEMS_DEFAULT


class RecurrencePath(msgspec.Struct, frozen=True):
    """Which one."""

    name: str


class RecurrenceWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A record to be published again and again."""

    target: TargetDocument
    cron: str
    zone: str = "UTC"
    value: Content = None
    key: Content = None
    headers: dict[str, Content] = {}
    paused: bool = False


class RecurrenceDocument(msgspec.Struct, frozen=True):
    """What recurs."""

    name: str
    cron: str
    zone: str
    next_ms: int
    last_ms: int | None
    count: int
    """How often it happened."""
    paused: bool
    target: TargetDocument
    key: Content
    value: Content
    headers: dict[str, Content]


class RecurrencePage(msgspec.Struct, frozen=True):
    """Some of what recurs, by name."""

    recurrences: list[RecurrenceDocument]
    next: str | None
    """Where the list goes on."""


def to_target(document: TargetDocument) -> Target:
    """Raises InvalidContent."""
    if (document.topic is None) is (document.exchange is None):
        raise InvalidContent("either a topic or an exchange", "/target")
    if document.exchange is not None:
        return Target(document.namespace, document.exchange, (document.routing_key,))
    partition = -1 if document.partition is None else document.partition
    return Target(document.namespace, None, (), document.topic or "", partition)


def to_letter(wish: ScheduleWish | RecurrenceWish, now_ms: int) -> Letter:
    """Raises InvalidContent."""
    return Letter(
        to_target(wish.target),
        now_ms,
        encode_header_block(wish.headers),
        encode_content(wish.value, "/value"),
        encode_content(wish.key, "/key"),
    )


def due_time(wish: ScheduleWish | ScheduleChange, now_ms: int) -> int | None:
    """When, if it is said. Raises InvalidContent."""
    if wish.due_ms is not None and wish.delay_ms is not None:
        raise InvalidContent("either due_ms or delay_ms", "/delay_ms")
    return now_ms + wish.delay_ms if wish.delay_ms is not None else wish.due_ms


def to_id(text: str) -> bytes:
    """Raises NotScheduled."""
    record_id = parse_id(text)
    if record_id is None:
        raise NotScheduled(f"{text!r} is not an id")
    return record_id


def to_search(query: ScheduleQuery) -> tuple[Search, SearchPosition | None]:
    """Raises InvalidParameter."""
    place = None
    if query.after:
        place = SearchPosition.decode(query.after)
        if place is None:
            raise InvalidParameter("after is taken from the answer before", "after")
    if query.header_value is not None and query.header is None:
        raise InvalidParameter("header_value needs header", "header_value")
    content = None if query.header_value is None else query.header_value.encode()
    search = Search(
        namespace=query.namespace,
        topic=query.topic,
        exchange=query.exchange,
        due_from_ms=query.due_from_ms,
        due_before_ms=query.due_before_ms,
        header=None if query.header is None else (query.header, content),
    )
    return search, place


def describe_target(target: Target) -> TargetDocument:
    """As it was asked for."""
    if target.exchange is not None:
        keys = target.routing_keys
        return TargetDocument(exchange=target.exchange, routing_key=keys[0] if keys else "", namespace=target.namespace)
    partition = None if target.partition < 0 else target.partition
    return TargetDocument(topic=target.topic, partition=partition, namespace=target.namespace)


def describe_pending(pending: Pending) -> ScheduleDocument:
    """A record that waits."""
    letter = pending.letter
    return ScheduleDocument(
        pending.id.hex(),
        pending.due_ms,
        letter.created_ms,
        describe_target(letter.target),
        decode_content(letter.key),
        decode_content(letter.value),
        decode_header_block(letter.headers),
    )


def describe_recurrence(recurrence: Recurrence) -> RecurrenceDocument:
    """What recurs."""
    entry = recurrence.entry
    return RecurrenceDocument(
        entry.name,
        entry.cron,
        entry.zone,
        entry.next_ms,
        entry.last_ms or None,
        entry.count,
        entry.is_paused,
        describe_target(entry.letter.target),
        decode_content(entry.letter.key),
        decode_content(entry.letter.value),
        decode_header_block(entry.letter.headers),
    )
