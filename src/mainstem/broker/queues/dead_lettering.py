"""Giving messages up: to where the queue sends its dead letters, and settled here, in one commit.

A dead letter carries one set of facts, whatever the protocol: `mainstem-dead` is the history of its deaths, the newest first;
`mainstem-origin` says where it first came from and why it went.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

from mainstem.broker.queues.outbox import Put
from mainstem.coordination.queue.message import Message
from mainstem.coordination.queue.records import decode_headers, encode_headers
from mainstem.coordination.routes.errors import UnknownExchange

if TYPE_CHECKING:
    from mainstem.broker.queues.queue import Queue
    from mainstem.broker.queues.queues import Queues
    from mainstem.broker.routes import Routes

log = logging.getLogger(__name__)

Reason: TypeAlias = Literal["rejected", "expired", "maxlen", "delivery_limit"]
DEAD_HEADER, ORIGIN_HEADER, TTL_HEADER = "mainstem-dead", "mainstem-origin", "mainstem-ttl"
DEATHS_MAX = 64
"""Deaths that are remembered of one message, by queue and reason."""


class Death(msgspec.Struct, frozen=True, array_like=True):
    """Once or more often a message was given up by this queue for this reason."""

    queue: str
    reason: Reason
    count: int
    first_ms: int
    last_ms: int
    exchange: str
    routing_keys: list[str]
    ttl_ms: int = -1
    """The time to live that the message had of its own."""


class Origin(msgspec.Struct, frozen=True):
    """Where a dead letter comes from."""

    reason: Reason
    namespace: str
    queue: str
    topic: str | None
    partition: int
    offset: int
    timestamp_ms: int
    died_ms: int
    deliveries: int
    failures: int
    error: str = ""


_encode = msgspec.msgpack.Encoder().encode
_decode_deaths = msgspec.msgpack.Decoder(list[Death]).decode
decode_origin = msgspec.msgpack.Decoder(Origin).decode


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


def deaths_of(headers: bytes) -> list[Death]:
    """The history of a message, the newest first."""
    if DEAD_HEADER.encode() not in headers:
        return []
    for name, content in decode_headers(headers):
        if name == DEAD_HEADER and content is not None:
            try:
                return _decode_deaths(content)
            except msgspec.MsgspecError:
                return []
    return []


def _with_death(deaths: list[Death], death: Death) -> list[Death]:
    """One more death, in front; the same queue and reason count together."""
    for number, known in enumerate(deaths):
        if known.queue == death.queue and known.reason == death.reason:
            again = msgspec.structs.replace(known, count=known.count + 1, last_ms=death.last_ms)
            return [again, *deaths[:number], *deaths[number + 1 :]]
    return [death, *deaths][:DEATHS_MAX]


def _is_cycle(target: str, deaths: Sequence[Death]) -> bool:
    """Whether a message comes back to a queue that gave it up, without anybody having rejected it in between."""
    for death in deaths:
        if death.reason == "rejected":
            return False
        if death.queue == target:
            return True
    return False


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
        deaths = _with_death(deaths_of(message.headers), death)
        if target.routing_key is not None:
            routing_key, cc = target.routing_key, ()
        names = self._route(queue, target.exchange, [routing_key, *cc], message)
        found = [self._queues.find(queue.namespace, name) for name in names if not _is_cycle(name, deaths)]
        targets = [one for one in found if one is not None and not one.is_gone]
        if not targets:
            return []
        block = decode_headers(envelopes.re_routed(message, target.exchange, routing_key))
        known = {name for name, _ in block}
        origin = _encode(self._origin(message, reason, error, now_ms))
        block = [header for header in block if header[0] not in (DEAD_HEADER, TTL_HEADER)]
        if ORIGIN_HEADER not in known:
            block.append((ORIGIN_HEADER, origin))
        block.append((DEAD_HEADER, _encode(deaths)))
        return [Put(targets, encode_headers(block), message.value, message.key, -1, _priority(message))]

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
            error,
        )


def _priority(message: Message) -> int:
    """A lane of a queue with priorities is a level."""
    return message.lane.number if message.lane.queue.properties.priority_max else 0


def _ttl(message: Message) -> int:
    for name, content in decode_headers(message.headers):
        if name == TTL_HEADER and content is not None and content.isdigit():
            return int(content)
    return -1
