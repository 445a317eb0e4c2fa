"""Giving messages up: to where the queue sends its dead letters, and settled here, in one commit.

A dead letter carries one set of facts, whatever the protocol: `mainstem-dead` is the history of its deaths, the newest first;
`mainstem-origin` says where it first came from and why it went.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from mainstem.broker.queues.publishing.outbox import Put
from mainstem.coordination.queues.deaths import (
    Attempt,
    Death,
    Origin,
    Reason,
    deaths_of,
    decode_origin,
    encode_facts,
    is_cycle,
    with_death,
)
from mainstem.coordination.routes.errors import UnknownExchange
from mainstem.model.header_names import DEAD_HEADER, ORIGIN_HEADER, TTL_HEADER
from mainstem.wire.messages.header_block import decode_headers
from mainstem.wire.messages.message import Message
from mainstem.wire.record_batch import encode_headers
from mainstem.wire.record_batch.encoding import varint_bytes

if TYPE_CHECKING:
    from mainstem.broker.queues.queue import Queue
    from mainstem.broker.queues.queues import Queues
    from mainstem.broker.routes import Routes
    from mainstem.coordination.queues.properties import QueueProperties

__all__ = [
    "DeadLettering",
    "Death",
    "Envelopes",
    "NeutralEnvelopes",
    "Origin",
    "Reason",
    "deaths_of",
    "decode_origin",
    "priority_of",
]

log = logging.getLogger(__name__)

COURSES_MAX = 1_024
COURSE_BYTES_MAX = 2_048
"""Headers that are longer are hardly those of another message, too."""


class Envelopes(Protocol):
    """What a protocol knows of the messages that it has published: how they were addressed."""

    def exchange_of(self, message: Message) -> str:
        """Where it was published."""

    def routing_key_of(self, message: Message) -> str:
        """Under which key."""

    def cc_of(self, message: Message) -> Sequence[str]:
        """Under which further keys."""

    def headers_of(self, message: Message) -> Mapping[str, object]:
        """Headers as routes look at them."""

    def properties_of(self, message: Message) -> Mapping[str, object]:
        """What else routes look at: message_id, correlation_id, timestamp, as far as they are set."""

    def re_routed(self, message: Message, exchange: str, routing_key: str) -> bytes:
        """Its block of headers, addressed anew; without a time to live."""

    def is_lasting(self, message: Message) -> bool:
        """Whether all of this is the same for every message of its queue that has the same headers."""


class NeutralEnvelopes:
    """Of messages that no exchange has seen: a topic's record was sent to its queue."""

    def exchange_of(self, message: Message) -> str:
        """The default exchange."""
        return ""

    def routing_key_of(self, message: Message) -> str:
        """The queue itself."""
        return str(message.lane.queue.name)

    def cc_of(self, message: Message) -> Sequence[str]:
        """None."""
        return ()

    def headers_of(self, message: Message) -> Mapping[str, object]:
        """The record's, as text where they are."""
        return {name: _text(content) for name, content in decode_headers(message.headers)}

    def properties_of(self, message: Message) -> Mapping[str, object]:
        """A record has none."""
        return {}

    def re_routed(self, message: Message, exchange: str, routing_key: str) -> bytes:
        """The record's, as they are."""
        return encode_headers([header for header in decode_headers(message.headers) if header[0] != TTL_HEADER])

    def is_lasting(self, message: Message) -> bool:
        """It is."""
        return True


def _text(content: bytes | None) -> object:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


class _Course(NamedTuple):
    """Where the messages of a queue that have the same headers go when they die, and what their letters have in common."""

    routes: int
    """Their generation: it holds until they change."""
    rules: QueueProperties
    targets: tuple[Queue, ...]
    death: Death
    """Without its time."""
    deaths: list[Death]
    """Those before."""
    entries: bytes
    """Of the block of headers; without the facts that each letter has of its own."""
    entry_count: int
    has_origin: bool
    priority: int


class DeadLettering:
    """Gives up messages of all queues."""

    def __init__(self, queues: Queues, routes: Routes) -> None:
        self._queues = queues
        self._routes = routes
        self.envelopes: Envelopes = NeutralEnvelopes()
        """How messages were addressed; the adapter that knows sets it."""
        self._courses: dict[tuple[Queue, Reason, bytes], _Course] = {}
        self._generation = -1
        """Of the queues that the courses lead to."""

    def letters(self, message: Message, reason: Reason, error: str = "") -> list[Put]:
        """What is to be published in place of this message; nothing where its queue names no target."""
        queue: Queue = message.lane.queue
        if queue.rules.dead_letter is None:
            return []
        course = self._course_of(message, reason)
        if not course.targets:
            return []
        now_ms = self._queues.now_ms()
        added: list[tuple[str, bytes | None]] = []
        if not course.has_origin:
            added.append((ORIGIN_HEADER, encode_facts(self._origin(message, reason, error, now_ms))))
        death = msgspec.structs.replace(course.death, first_ms=now_ms, last_ms=now_ms)
        added.append((DEAD_HEADER, encode_facts(with_death(course.deaths, death))))
        count = varint_bytes(course.entry_count + len(added))
        block = b"".join((count, course.entries, encode_headers(added)[1:]))
        priority = message.lane.number if queue.properties.priority_max else course.priority
        return [Put(course.targets, block, message.value, message.key, -1, priority)]

    def _course_of(self, message: Message, reason: Reason) -> _Course:
        """Messages often have the same headers, as of one publisher: what follows from them is found out once."""
        queue: Queue = message.lane.queue
        if self._generation != self._queues.generation:
            self._generation = self._queues.generation
            self._courses.clear()
        name = queue, reason, message.headers
        routes = self._routes.of(queue.namespace).generation
        known = self._courses.get(name)
        if known is not None and known.routes == routes and known.rules is queue.rules:
            return known
        course = self._find_course(message, reason, routes)
        if len(message.headers) <= COURSE_BYTES_MAX and self.envelopes.is_lasting(message):
            if len(self._courses) >= COURSES_MAX:
                self._courses.clear()
            self._courses[name] = course
        return course

    def _find_course(self, message: Message, reason: Reason, routes: int) -> _Course:
        queue: Queue = message.lane.queue
        target = queue.rules.dead_letter
        assert target is not None
        envelopes = self.envelopes
        routing_key, cc = envelopes.routing_key_of(message), envelopes.cc_of(message)
        death = Death(queue.name, reason, 1, 0, 0, envelopes.exchange_of(message), [routing_key, *cc], _ttl(message))
        earlier = deaths_of(message.headers)
        if target.routing_key is not None:
            routing_key, cc = target.routing_key, ()
        names = self._route(queue, target.exchange, [routing_key, *cc], message)
        deaths = with_death(earlier, death)
        found = [self._queues.find(queue.namespace, name) for name in names if not is_cycle(name, deaths)]
        targets = tuple([one for one in found if one is not None and not one.is_gone])
        block = decode_headers(envelopes.re_routed(message, target.exchange, routing_key)) if targets else []
        kept = [header for header in block if header[0] not in (DEAD_HEADER, TTL_HEADER)]
        return _Course(
            routes,
            queue.rules,
            targets,
            death,
            earlier,
            encode_headers(kept)[len(varint_bytes(len(kept))) :],
            len(kept),
            any(name == ORIGIN_HEADER for name, _ in kept),
            priority_of(message, envelopes),
        )

    def _route(self, queue: Queue, exchange: str, keys: Sequence[str], message: Message) -> Sequence[str]:
        def headers() -> Mapping[str, object]:
            return self.envelopes.headers_of(message)

        try:
            return self._routes.of(queue.namespace).route_all(exchange, keys, headers, due=True).queues
        except UnknownExchange:
            return ()

    def _origin(self, message: Message, reason: Reason, error: str, now_ms: int) -> Origin:
        lane = message.lane
        queue: Queue = lane.queue
        attempts: list[Attempt] = lane.attempts.get(message.offset, [])
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


def priority_of(message: Message, envelopes: Envelopes) -> int:
    """What its publisher said; of a queue with priorities, the level that it had."""
    if message.lane.queue.properties.priority_max:
        return int(message.lane.number)
    priority = envelopes.properties_of(message).get("priority", 0)
    return priority if isinstance(priority, int) else 0


def _ttl(message: Message) -> int:
    for name, content in decode_headers(message.headers):
        if name == TTL_HEADER and content is not None and content.isdigit():
            return int(content)
    return -1
