"""Dead letters of messages, published anew through the routes of their namespace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mainstem.broker.dead_letters.facts import message_origin
from mainstem.broker.envelopes import EnvelopeRegistry, priority_of
from mainstem.broker.publication import Put
from mainstem.coordination.dead_letters.deaths import Death, Reason, deaths_of, encode_facts, is_cycle, with_death
from mainstem.coordination.dead_letters.targets import DeadLetterTarget
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

COURSES_MAX = 1_024
COURSE_BYTES_MAX = 2_048
"""Headers that are longer are hardly those of another message, too."""


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


class RoutedLetters:
    """Of messages of all queues."""

    def __init__(self, queues: Queues, routes: Routes) -> None:
        self._queues = queues
        self._routes = routes
        self.envelopes = EnvelopeRegistry()
        """How messages were addressed; adapters that know add to it."""
        self._courses: dict[tuple[Queue, Reason, bytes], _Course] = {}
        self._generation = -1
        """Of the queues that the courses lead to."""

    def letters(self, message: Message, reason: Reason, error: str = "") -> list[Put]:
        """What is to be published in place of this message; nothing where its queue names no target."""
        queue: Queue = message.lane.queue
        if not isinstance(queue.policy.dead_letter, DeadLetterTarget):
            return []
        course = self._course_of(message, reason)
        if not course.targets:
            return []
        now_ms = self._queues.now_ms()
        added: list[tuple[str, bytes | None]] = []
        if not course.has_origin:
            added.append((ORIGIN_HEADER, encode_facts(message_origin(message, reason, error, now_ms))))
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
        target = queue.policy.dead_letter
        assert isinstance(target, DeadLetterTarget), "it is published anew, not written to a topic"
        envelopes = self.envelopes.of(message)
        exchange, keys = envelopes.address_of(message)
        death = Death(queue.name, reason, 1, 0, 0, exchange, list(keys), _ttl(message))
        earlier = deaths_of(message.headers)
        if target.routing_key is not None:
            keys = (target.routing_key,)
        names = self._route(queue, target.exchange, keys, message)
        deaths = with_death(earlier, death)
        found = [self._queues.find(queue.namespace, name) for name in names if not is_cycle(name, deaths)]
        targets = tuple([one for one in found if one is not None and not one.is_gone])
        block = decode_headers(envelopes.readdressed(message, target.exchange, keys[0])) if targets else []
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


def _ttl(message: Message) -> int:
    for name, content in decode_headers(message.headers):
        if name == TTL_HEADER and content is not None and content.isdigit():
            return int(content)
    return -1
