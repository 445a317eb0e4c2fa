"""Queues, their messages and redrives as they are asked for and shown."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE
from mainstem.broker.dead_letters.browsing import FoundMessage, Where
from mainstem.broker.dead_letters.facts import origin_of, redriven_count
from mainstem.broker.dead_letters.redrives import Redrive
from mainstem.broker.queues import (
    DeadLetterTarget,
    Origin,
    Queue,
    QueueProperties,
    RetryPolicy,
    deaths_of,
    read_retry,
    write_retry,
)
from mainstem.protocols.http.errors import InvalidContent, InvalidParameter
from mainstem.protocols.http.mapping.contents import Content, decode_content, decode_header_block
from mainstem.protocols.http.mapping.documents import PAGE_ITEMS_DEFAULT, After, Limit

OFFSETS_MAX = 10_000
TIME_MS_MAX = 2**53
Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Lane = Annotated[int, msgspec.Meta(ge=0, le=100_000)]
INTERNAL_PREFIX = "mainstem-"
"""Headers of ours, shown as facts."""


class QueuePath(msgspec.Struct, frozen=True):
    """Which queue."""

    name: str


class QueueQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where it is."""

    namespace: str = DEFAULT_NAMESPACE


class QueuesQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of the list."""

    namespace: str = DEFAULT_NAMESPACE
    search: Annotated[str, msgspec.Meta(description="Only names that contain this text.")] = ""
    after: After = ""
    limit: Limit = PAGE_ITEMS_DEFAULT


class QueueSummary(msgspec.Struct, frozen=True):
    """A queue in a list."""

    name: str
    kind: str
    ready: int
    """Messages that wait."""
    unsettled: int
    """Messages that consumers have."""
    consumers: int
    paused: bool


class QueuePage(msgspec.Struct, frozen=True):
    """Some queues, by name."""

    queues: list[QueueSummary]
    next: str | None
    """Where the list goes on."""


class LaneDocument(msgspec.Struct, frozen=True):
    """One log of a queue."""

    lane: int
    floor: int
    """Everything below is settled."""
    end: int
    lag_messages: int
    lag_seconds: float | None
    """Age of the first message that is not settled; 0 when there is none, null when it has no timestamp."""


class QueueDocument(msgspec.Struct, frozen=True):
    """A queue."""

    name: str
    namespace: str
    topic: str | None
    """As clients that know topics see it."""
    kind: str
    durable: bool
    exclusive: bool
    auto_delete: bool
    ready: int
    unsettled: int
    consumers: int
    paused: bool
    lost: int
    """Messages that retention took before they were settled."""
    expired: int
    """Since the start: messages that were too old,"""
    dropped: int
    """that were too many,"""
    refused: int
    """and that were not taken at all, because the queue was full."""
    rules: dict[str, str]
    """What is in force besides, by what it was declared with and by policies."""
    lag_messages: int
    lag_seconds: float | None
    """The largest of all lanes."""
    lanes: list[LaneDocument]


class QueueDeletion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether to delete a queue that is used, or not empty."""

    namespace: str = DEFAULT_NAMESPACE
    if_unused: bool = False
    if_empty: bool = False


RetryText: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        max_length=256, description="fixed, linear, exponential or rocketmq, and what differs: `fixed delay_ms=500`."
    ),
]


class QueueWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A queue to be declared. On a topic of this name it reads what comes to the topic from now on."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    namespace: str = DEFAULT_NAMESPACE
    kind: Literal["classic", "quorum", "stream"] = "classic"
    message_ttl_ms: Annotated[int, msgspec.Meta(ge=0, le=TIME_MS_MAX)] | None = None
    expires_ms: Annotated[int, msgspec.Meta(ge=1, le=TIME_MS_MAX)] | None = None
    length_max: Annotated[int, msgspec.Meta(ge=0, le=TIME_MS_MAX)] | None = None
    overflow: Literal["drop-head", "reject-publish"] = "drop-head"
    dead_letter_queue: str | None = None
    delivery_limit: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] | None = None
    lease_ms: Annotated[int, msgspec.Meta(ge=100, le=TIME_MS_MAX)] | None = None
    """How long a consumer of any protocol may work on a message. None: as long as it stays connected."""
    ordering: Literal["shared", "key", "exclusive", "failover"] = "shared"
    """key: messages of one key are worked on by one consumer at a time, in order."""
    retry: RetryText | None = None


def to_properties(wish: QueueWish) -> QueueProperties:
    """What a queue is declared with."""
    dead = None if wish.dead_letter_queue is None else DeadLetterTarget("", wish.dead_letter_queue)
    return QueueProperties(
        kind=wish.kind,
        message_ttl_ms=wish.message_ttl_ms,
        expires_ms=wish.expires_ms,
        length_max=wish.length_max,
        overflow=wish.overflow,
        dead_letter=dead,
        delivery_limit=wish.delivery_limit,
        lease_ms=wish.lease_ms,
        ordering=wish.ordering,
        retry=None if wish.retry is None else read_retry_text(wish.retry),
    )


def read_retry_text(text: str) -> RetryPolicy:
    """Raises InvalidContent."""
    try:
        return read_retry(text)
    except ValueError as error:
        raise InvalidContent(str(error), "/retry") from None


class QueueChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to change: `paused` gives nothing out until it is false again; null takes a limit away."""

    paused: bool | UnsetType = UNSET
    message_ttl_ms: Annotated[int, msgspec.Meta(ge=0, le=TIME_MS_MAX)] | UnsetType | None = UNSET
    expires_ms: Annotated[int, msgspec.Meta(ge=1, le=TIME_MS_MAX)] | UnsetType | None = UNSET
    length_max: Annotated[int, msgspec.Meta(ge=0, le=TIME_MS_MAX)] | UnsetType | None = UNSET
    overflow: Literal["drop-head", "reject-publish"] | UnsetType = UNSET
    dead_letter_queue: str | UnsetType | None = UNSET
    delivery_limit: Annotated[int, msgspec.Meta(ge=0, le=1000000)] | UnsetType | None = UNSET
    lease_ms: Annotated[int, msgspec.Meta(ge=100, le=TIME_MS_MAX)] | UnsetType | None = UNSET
    retry: RetryText | UnsetType | None = UNSET


def changed_properties(present: QueueProperties, change: QueueChange) -> QueueProperties:
    """What the queue is to be declared with from now on."""
    changes: dict[str, Any] = {
        name: value
        for name, value in msgspec.structs.asdict(change).items()
        if value is not UNSET and name not in ("paused", "dead_letter_queue", "retry")
    }
    if change.dead_letter_queue is not UNSET:
        changes["dead_letter"] = (
            None if change.dead_letter_queue is None else DeadLetterTarget("", change.dead_letter_queue)
        )
    if change.retry is not UNSET:
        changes["retry"] = None if change.retry is None else read_retry_text(change.retry)
    return msgspec.structs.replace(present, **changes)


class SeekWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Go to a time or an offset: all from there on waits again, all before is settled."""

    time_ms: Offset | None = None
    offset: Offset | None = None


class SeekQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a queue would go: `time_ms` or `offset`."""

    namespace: str = DEFAULT_NAMESPACE
    time_ms: Offset | None = None
    offset: Offset | None = None


class SeekPreview(msgspec.Struct, frozen=True):
    """What a queue has now, and would have after a seek."""

    ready: int
    """Messages that wait now."""
    unsettled: int
    """Messages that consumers have now."""
    messages: int
    """Messages from there on: they would wait, but for those that consumers have."""
    consumers: int
    """Who would get them."""


class LettersQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Dead letters of which namespace; of all where none is named."""

    namespace: str | None = None


class LetterPlace(msgspec.Struct, frozen=True):
    """A queue to which others send what they give up."""

    queue: str
    namespace: str
    letters: int
    """Messages that wait there."""
    sources: list[str]
    """The queues that send there, 100 at most."""


class LetterPlaces(msgspec.Struct, frozen=True):
    """The most letters first."""

    places: list[LetterPlace]
    letters: int


class Selection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Messages of one lane."""

    offsets: Annotated[list[Offset], msgspec.Meta(max_length=OFFSETS_MAX)]
    lane: Lane = 0


class RedeliverWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Let these wait again, though they are settled."""

    messages: Annotated[list[Selection], msgspec.Meta(max_length=1_000)]


class Count(msgspec.Struct, frozen=True):
    """How many messages it were."""

    messages: int


class MessagesQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which messages."""

    namespace: str = DEFAULT_NAMESPACE
    reason: Annotated[str | None, msgspec.Meta(description="Of dead letters: why they are.")] = None
    origin: Annotated[str | None, msgspec.Meta(description="Of dead letters: the queue in which they died.")] = None
    header: Annotated[str | None, msgspec.Meta(description="Name of a header; with `header_value`, its text.")] = None
    header_value: str | None = None
    where: Annotated[str | None, msgspec.Meta(description="An SQL92 expression over the headers.")] = None
    after: Annotated[str, msgspec.Meta(description="Go on behind this place, as LANE:OFFSET.")] = ""
    limit: Limit = PAGE_ITEMS_DEFAULT


class MessagePath(msgspec.Struct, frozen=True):
    """Which message: LANE:OFFSET."""

    name: str
    place: str


class DeathDocument(msgspec.Struct, frozen=True):
    """Where, why and how often a message was given up."""

    queue: str
    reason: str
    count: int
    first_ms: int
    last_ms: int


class AttemptDocument(msgspec.Struct, frozen=True):
    """One attempt that failed."""

    time_ms: int
    error: str


class OriginDocument(msgspec.Struct, frozen=True):
    """Where a dead letter comes from."""

    reason: str
    namespace: str
    queue: str
    topic: str | None
    partition: int
    offset: int
    timestamp_ms: int
    died_ms: int
    deliveries: int
    failures: int
    error: str
    attempts: list[AttemptDocument]
    """The last ones, the newest last."""


class MessageDocument(msgspec.Struct, frozen=True):
    """A message of a queue."""

    place: str
    timestamp_ms: int
    given_out: bool
    """Whether a consumer has it."""
    key: Content
    value: Content
    headers: dict[str, Content]
    origin: OriginDocument | None
    """Of a dead letter."""
    deaths: list[DeathDocument]
    """The newest first."""
    redriven: int
    """How often it was sent back."""


class MessagePage(msgspec.Struct, frozen=True):
    """Some messages."""

    messages: list[MessageDocument]
    next: str | None
    """Where the list goes on; a page may be short and still have a next one."""


class MessageChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Other content. What is not named stays; a header that is null goes."""

    value: Content | msgspec.UnsetType = msgspec.UNSET
    headers: dict[str, Content] = {}


class RedriveContent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Send dead letters back: to the queue in which each one died, or to another."""

    to_queue: str | None = None
    rate: Annotated[float, msgspec.Meta(gt=0, le=1_000_000, description="Messages in a second, at most.")] = 100.0
    limit: Annotated[int, msgspec.Meta(ge=1, description="Messages in all.")] | None = None
    times_max: Annotated[int, msgspec.Meta(ge=1, le=1_000, description="One that was sent back so often stays.")] = 3
    reason: str | None = None
    origin: str | None = None
    where: Annotated[str, msgspec.Meta(description="An SQL92 expression over the headers.")] | None = None


class RedrivePath(msgspec.Struct, frozen=True):
    """Which redrive."""

    number: Annotated[int, msgspec.Meta(ge=1)]


class RedriveDocument(msgspec.Struct, frozen=True):
    """Dead letters on their way back."""

    number: int
    queue: str
    namespace: str
    to_queue: str | None
    state: str
    """running, done, cancelled, failed."""
    moved: int
    left: int
    """Passed over: not asked for, without a target, or sent back too often."""
    error: str


class RedriveList(msgspec.Struct, frozen=True):
    """Those under way, and the last ones that ended."""

    redrives: list[RedriveDocument]


_RULES = (
    "message_ttl_ms", "expires_ms", "length_max", "bytes_max", "overflow", "dead_letter", "priority_max", "single_active",
    "delivery_limit", "ordering", "retention_ms", "retention_bytes", "age_max_ms", "lease_ms", "retry",
)  # fmt: skip


def describe_rules(queue: Queue) -> dict[str, str]:
    """What differs from nothing in particular."""
    shown: dict[str, str] = {}
    for name in _RULES:
        value = getattr(queue.rules, name)
        if value not in (None, 0, False):
            if isinstance(value, RetryPolicy):
                shown[name] = write_retry(value)
            else:
                plain = isinstance(value, str | int | float)
                shown[name] = str(value) if plain else msgspec.json.encode(value).decode()
    return shown


def describe_message(found: FoundMessage, opaque: frozenset[str]) -> MessageDocument:
    """A message with what is known of it."""
    message = found.message
    origin = origin_of(message)
    headers = decode_header_block(message.headers)
    return MessageDocument(
        place=encode_place(Where(message.lane.number, message.offset)),
        timestamp_ms=message.timestamp_ms,
        given_out=found.is_given_out,
        key=decode_content(message.key),
        value=decode_content(message.value),
        headers={name: content for name, content in headers.items() if not is_internal(name, opaque)},
        origin=None if origin is None else _describe_origin(origin),
        deaths=[
            DeathDocument(death.queue, death.reason, death.count, death.first_ms, death.last_ms)
            for death in deaths_of(message.headers)
        ],
        redriven=redriven_count(message),
    )


def _describe_origin(origin: Origin) -> OriginDocument:
    facts = msgspec.structs.asdict(origin)
    facts["attempts"] = [AttemptDocument(attempt.time_ms, attempt.error) for attempt in origin.attempts]
    return OriginDocument(**facts)


def is_internal(name: str, opaque: frozenset[str]) -> bool:
    """Whether a header is not the publisher's, but ours or the dialect's."""
    return name in opaque or name.startswith(INTERNAL_PREFIX)


def describe_redrive(redrive: Redrive) -> RedriveDocument:
    """How far it is."""
    return RedriveDocument(
        redrive.number,
        redrive.queue_name,
        redrive.namespace,
        redrive.wish.to_queue,
        redrive.state,
        redrive.moved,
        redrive.left,
        redrive.error,
    )


def encode_place(where: Where) -> str:
    """LANE:OFFSET."""
    return f"{where.lane}:{where.offset}"


def decode_place(text: str, parameter: str) -> Where:
    """Raises InvalidParameter."""
    lane, _, offset = text.partition(":")
    if not (lane.isdecimal() and offset.isdecimal() and len(lane) < 7 and len(offset) < 20):
        raise InvalidParameter(f"{parameter} is LANE:OFFSET", parameter)
    return Where(int(lane), int(offset))
