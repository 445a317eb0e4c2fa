"""The facts that a dead letter carries, whatever its protocol.

`mainstem-dead` is the history of its deaths, the newest first; `mainstem-origin` says where it first came from and why it
went. Letters on topics have the headers of KIP-1191 too, so that the tools of Kafka read them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mainstem.coordination.dead_letters.deaths import Attempt, Origin, Reason, decode_origin, encode_facts
from mainstem.model.header_names import KAFKA_LETTER_PREFIX, ORIGIN_HEADER, REDRIVEN_HEADER
from mainstem.wire.messages.header_block import decode_headers
from mainstem.wire.messages.message import Message

if TYPE_CHECKING:
    from mainstem.broker.queues.queue import Queue

MESSAGES: dict[Reason, str] = {
    "rejected": "Offset rejected by client.",
    "delivery_limit": "Offset delivery count exceeded the threshold.",
}
"""What a letter on a topic says where nobody gave a reason, in the words of Kafka."""


class LetterSource(NamedTuple):
    """Who gives records up, and where they are."""

    namespace: str
    name: str
    """Of the subscription."""
    topic: str
    partition: int


class Condemned(NamedTuple):
    """A record that is given up, and what is known of it."""

    offset: int
    reason: Reason
    deliveries: int
    failures: int
    error: str
    attempts: list[Attempt] = []  # noqa: RUF012 - nobody changes it


def record_headers(source: LetterSource, one: Condemned, now_ms: int) -> list[tuple[str, bytes]]:
    """The headers of a letter on a topic. Of a record that was not read its own time is not known."""
    facts = {
        "topic": source.topic,
        "partition": str(source.partition),
        "offset": str(one.offset),
        "group": source.name,
        "delivery.count": str(one.deliveries),
        "message": one.error,
    }
    origin = Origin(
        one.reason,
        source.namespace,
        source.name,
        source.topic,
        source.partition,
        one.offset,
        -1,
        now_ms,
        one.deliveries,
        one.failures,
        one.error,
        one.attempts,
    )
    headers = [(KAFKA_LETTER_PREFIX + fact, value.encode()) for fact, value in facts.items()]
    return [*headers, (ORIGIN_HEADER, encode_facts(origin))]


def message_origin(message: Message, reason: Reason, error: str, now_ms: int) -> Origin:
    """Where a message comes from that its queue gives up now."""
    lane = message.lane
    queue: Queue = lane.queue
    attempts: list[Attempt] = lane.cursor.attempts.get(message.offset, [])
    return Origin(
        reason,
        queue.namespace,
        queue.name,
        queue.topic_name,
        lane.number,
        message.offset,
        message.timestamp_ms,
        now_ms,
        message.deliveries + (reason in ("rejected", "delivery_limit")),
        message.failures,
        error or next((attempt.error for attempt in reversed(attempts) if attempt.error), ""),
        attempts,
    )


def origin_of(message: Message) -> Origin | None:
    """Where a dead letter comes from."""
    for name, content in decode_headers(message.headers):
        if name == ORIGIN_HEADER and content is not None:
            try:
                return decode_origin(content)
            except ValueError:
                return None
    return None


def redriven_count(message: Message) -> int:
    """How often it was sent back."""
    for name, content in decode_headers(message.headers):
        if name == REDRIVEN_HEADER and content is not None and content.isdigit() and len(content) < 10:
            return int(content)
    return 0
