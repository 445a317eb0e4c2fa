"""Records as they are shown and as they are published: the same form."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE, Topic
from mainstem.broker.records.browsing import FoundRecord, size_of
from mainstem.broker.records.once import Position
from mainstem.broker.records.publication import NewRecord
from mainstem.broker.schedules import DUE_MS_MAX
from mainstem.broker.schemas.decoding import Decoded
from mainstem.protocols.http.errors import InvalidContent, InvalidSchedule, UnknownPartition
from mainstem.protocols.http.mapping.contents import Content, decode_content, encode_content
from mainstem.protocols.http.mapping.documents import PAGE_ITEMS_DEFAULT, Limit
from mainstem.protocols.http.mapping.records.contents import read_value, show_value

TIME_MS_MAX = 2**53
WAIT_MS_MAX = 30_000
KEY_CHARACTERS_MAX = 255

PartitionNumber = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
TimeMs = Annotated[int, msgspec.Meta(ge=0, le=TIME_MS_MAX, description="Milliseconds since 1970 UTC.")]
Offset = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
AfterMs = Annotated[int, msgspec.Meta(ge=0, le=DUE_MS_MAX)]
Where = Annotated[
    str, msgspec.Meta(description="An SQL92 expression over key, headers and the fields of the JSON value.")
]


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One header, where a name is repeated."""

    name: str
    value: Content = None


class RecordDocument(msgspec.Struct, frozen=True):
    """A record: one of `value`, `text` and `base64` is there."""

    partition: int
    offset: int
    time_ms: int
    size: int
    """Bytes of key, value and headers."""
    key: Content
    value: msgspec.Raw | UnsetType = UNSET
    text: str | UnsetType = UNSET
    base64: str | UnsetType = UNSET
    headers: dict[str, Content] | list[Header] | UnsetType = UNSET
    """A list where a name is repeated."""
    decoded: msgspec.Raw | UnsetType = UNSET
    """With `decode`: what the value says by the schema that it names."""
    schema_id: int | UnsetType = UNSET
    """With `decode`: that schema."""


class RecordList(msgspec.Struct, frozen=True):
    """Records of a topic."""

    records: list[RecordDocument]
    scanned: int
    """Records that were looked at."""
    unreadable: int
    """Records passed over, because their batch cannot be opened."""
    complete: bool
    """Whether nothing more is there, in this direction and at present."""
    position: str
    """Where the scan came to: `after` of the next request."""
    next: str | None
    """Where the list goes on. Oldest first there is always more to come; newest first it ends."""
    follow: str | None = None
    """Of the first answer with `newest`: `after` for a reader that wants what comes from now on."""


class RecordsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which records."""

    partition: PartitionNumber | None = None
    offset: Annotated[Offset, msgspec.Meta(description="From here on; with `newest`, before it.")] | None = None
    time_ms: Annotated[TimeMs, msgspec.Meta(description="Since then; with `newest`, before it.")] | None = None
    newest: Annotated[Limit, msgspec.Meta(description="The newest records first, at most this many.")] | None = None
    after: Annotated[str, msgspec.Meta(description="`position` of the answer before.")] = ""
    key: str | None = None
    where: Where | None = None
    limit: Limit = PAGE_ITEMS_DEFAULT
    decode: Annotated[bool, msgspec.Meta(description="Decode values that name a schema of the registry.")] = False
    wait_ms: Annotated[int, msgspec.Meta(ge=0, le=WAIT_MS_MAX, description="Wait for a record, if none is there.")] = 0
    namespace: str = DEFAULT_NAMESPACE


class FollowQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which records to follow; those that come from now on, unless a place is given."""

    partition: PartitionNumber | None = None
    offset: Offset | None = None
    time_ms: TimeMs | None = None
    after: Annotated[str, msgspec.Meta(description="The last `id` seen; the header Last-Event-ID is the same.")] = ""
    key: str | None = None
    decode: Annotated[bool, msgspec.Meta(description="Decode values that name a schema of the registry.")] = False
    where: Where | None = None
    namespace: str = DEFAULT_NAMESPACE


class RecordWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A record to be published.

    `offset`, `size`, `decoded` and `schema_id` may be there, as in a record that was read, and say nothing.
    """

    key: Content = None
    value: msgspec.Raw | UnsetType = UNSET
    text: str | None = None
    base64: str | None = None
    headers: dict[str, Content] | list[Header] = {}
    partition: PartitionNumber | None = None
    """None: by the key, or any."""
    time_ms: TimeMs | None = None
    after_ms: Annotated[AfterMs, msgspec.Meta(description="Publish it later, after this time.")] | None = None
    due_ms: Annotated[int, msgspec.Meta(ge=0, le=DUE_MS_MAX, description="Publish it then.")] | None = None
    offset: int | None = None
    size: int | None = None
    decoded: msgspec.Raw | UnsetType = UNSET
    schema_id: int | None = None


class RecordsWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Records to be published together."""

    records: Annotated[list[RecordWish], msgspec.Meta(min_length=1)]


class PublishQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of a single record that is sent as text or bytes; `namespace` counts always."""

    namespace: str = DEFAULT_NAMESPACE
    key: str | None = None
    partition: PartitionNumber | None = None
    time_ms: TimeMs | None = None
    after_ms: AfterMs | None = None
    due_ms: Annotated[int, msgspec.Meta(ge=0, le=DUE_MS_MAX)] | None = None


class PositionDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a record went."""

    partition: int | None = None
    offset: int | None = None
    """Absent: it waits in the schedule, or was published by an earlier request and its place is not known any more."""
    scheduled: str | None = None
    """The id of a record that is published later, in /v1/schedules."""


class Publication(msgspec.Struct, frozen=True):
    """Where all of them went, in the order of the request."""

    positions: list[PositionDocument]
    repeated: bool
    """Whether an earlier request with the same Idempotency-Key published them."""


# Shown


def describe_record(found: FoundRecord, decoded: Decoded | None = None) -> RecordDocument:
    """A record for its reader."""
    record = found.record
    value, text, encoded = show_value(record.value)
    headers: dict[str, Content] | list[Header] | UnsetType = UNSET
    if record.headers:
        headers = {name: decode_content(content) for name, content in record.headers}
        if len(headers) < len(record.headers):
            headers = [Header(name, decode_content(content)) for name, content in record.headers]
    return RecordDocument(
        partition=found.partition,
        offset=record.offset,
        time_ms=record.timestamp_ms,
        size=size_of(record),
        key=decode_content(record.key),
        value=value,
        text=text,
        base64=encoded,
        headers=headers,
        decoded=UNSET if decoded is None else msgspec.Raw(decoded.json),
        schema_id=UNSET if decoded is None else decoded.schema_id,
    )


def describe_position(position: Position) -> PositionDocument:
    """Where a record went."""
    return PositionDocument(
        partition=None if position.partition < 0 or position.scheduled else position.partition,
        offset=None if position.offset < 0 else position.offset,
        scheduled=position.scheduled or None,
    )


# Published


def to_record(wish: RecordWish, topic: Topic, pointer: str, now_ms: int) -> NewRecord:
    """A record for the broker. Raises InvalidContent, InvalidSchedule, UnknownPartition."""
    headers = wish.headers
    pairs = headers.items() if isinstance(headers, dict) else [(header.name, header.value) for header in headers]
    return NewRecord(
        key=encode_content(wish.key, f"{pointer}/key"),
        value=read_value(wish.value, wish.text, wish.base64, pointer),
        headers=[(name, encode_content(content, f"{pointer}/headers/{name}")) for name, content in pairs],
        partition=check_partition(topic, wish.partition),
        time_ms=-1 if wish.time_ms is None else wish.time_ms,
        due_ms=due_time(wish.after_ms, wish.due_ms, now_ms, pointer),
    )


def check_partition(topic: Topic, partition: int | None) -> int:
    """-1 for any. Raises UnknownPartition."""
    if partition is None:
        return -1
    if partition >= len(topic.logs):
        raise UnknownPartition(f"topic {topic.name} has {len(topic.logs)} partitions, and none is number {partition}")
    return partition


def due_time(after_ms: int | None, due_ms: int | None, now_ms: int, pointer: str = "") -> int | None:
    """When a record is to be published; None: now. Raises InvalidContent, InvalidSchedule."""
    if after_ms is not None and due_ms is not None:
        raise InvalidContent("either after_ms or due_ms", f"{pointer}/after_ms")
    if after_ms is None:
        return due_ms
    if not after_ms:
        return None
    if now_ms + after_ms > DUE_MS_MAX:
        raise InvalidSchedule(f"{after_ms} ms from now is too far")
    return now_ms + after_ms
