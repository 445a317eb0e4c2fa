"""Giving messages up: to where the queue sends its dead letters, and settled here, in one commit.

A dead letter carries one set of facts, whatever the protocol: `mainstem-dead` is the history of its deaths, the newest first;
`mainstem-origin` says where it first came from and why it went.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from mainstem.broker.queues.outbox import Put
from mainstem.coordination.queue.deaths import (
    DEAD_HEADER,
    ORIGIN_HEADER,
    TTL_HEADER,
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
from mainstem.coordination.queue.header_block import decode_headers
from mainstem.coordination.queue.message import Message
from mainstem.coordination.routes.errors import UnknownExchange
from mainstem.wire.record_batch import encode_headers

if TYPE_CHECKING:
    from mainstem.broker.queues.queue import Queue
    from mainstem.broker.queues.queues import Queues
    from mainstem.broker.routes import Routes

__all__ = [
    "DEAD_HEADER",
    "ORIGIN_HEADER",
    "TTL_HEADER",
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


def _text(content: bytes | None) -> object:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


class DeadLettering:
    """Gives up messages of all queues."""

    def __init__(self, queues: Queues, routes: Routes) -> None:
        self._queues = queues
        self._routes = routes
        self.envelopes: Envelopes = NeutralEnvelopes()
        """How messages were addressed; the adapter that knows sets it."""

    def letters(self, message: Message, reason: Reason, error: str = "") -> list[Put]:
        """What is to be published in place of this message; nothing where its queue names no target."""
        queue: Queue = message.lane.queue
        target = queue.rules.dead_letter
        if target is None:
            return []
        envelopes = self.envelopes
        routing_key, cc = envelopes.routing_key_of(message), envelopes.cc_of(message)
        now_ms = self._queues.now_ms()
        death = Death(
            queue.name, reason, 1, now_ms, now_ms, envelopes.exchange_of(message), [routing_key, *cc], _ttl(message)
        )
        deaths = with_death(deaths_of(message.headers), death)
        if target.routing_key is not None:
            routing_key, cc = target.routing_key, ()
        names = self._route(queue, target.exchange, [routing_key, *cc], message)
        found = [self._queues.find(queue.namespace, name) for name in names if not is_cycle(name, deaths)]
        targets = [one for one in found if one is not None and not one.is_gone]
        if not targets:
            return []
        block = decode_headers(envelopes.re_routed(message, target.exchange, routing_key))
        known = {name for name, _ in block}
        origin = encode_facts(self._origin(message, reason, error, now_ms))
        block = [header for header in block if header[0] not in (DEAD_HEADER, TTL_HEADER)]
        if ORIGIN_HEADER not in known:
            block.append((ORIGIN_HEADER, origin))
        block.append((DEAD_HEADER, encode_facts(deaths)))
        return [Put(targets, encode_headers(block), message.value, message.key, -1, priority_of(message, envelopes))]

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
