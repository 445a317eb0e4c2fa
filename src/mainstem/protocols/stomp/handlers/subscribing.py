"""SUBSCRIBE and UNSUBSCRIBE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from mainstem.broker.errors import QueueBusy
from mainstem.broker.queues import Message, Queue, StreamStart
from mainstem.protocols.stomp.codec.frames import Head
from mainstem.protocols.stomp.errors import StompError, access_refused, invalid_header, precondition_failed
from mainstem.protocols.stomp.handlers import endpoints
from mainstem.protocols.stomp.handlers.permissions import check_key, check_queue
from mainstem.protocols.stomp.handlers.publishing import destination_of
from mainstem.protocols.stomp.handlers.subscription import AckMode, Subscription, consumer_tag, destination_tag
from mainstem.protocols.stomp.mapping.declarations import is_lasting
from mainstem.protocols.stomp.mapping.destinations import TEMP_PREFIX, parse_destination
from mainstem.protocols.stomp.mapping.selectors import read_selector
from mainstem.protocols.stomp.mapping.words import queue_words

if TYPE_CHECKING:
    from mainstem.protocols.stomp.handlers.connection import StompConnection

ENDED_MAX = 16
"""Subscriptions that have ended and whose deliveries may still be acknowledged; of older ones they are given back."""
PREFETCH_MAX = 65_535
ACK_MODES = ("auto", "client", "client-individual")
STREAM_STARTS = ("first", "last", "next")


async def subscribe(connection: StompConnection, head: Head, body: bytes) -> None:
    """SUBSCRIBE: the queue is declared and bound where that is needed, then consumed."""
    headers = head.headers
    _check_lasting(headers)
    destination = destination_of(head)
    tag = _tag(head)
    _check_new(connection, tag)
    mode = headers.get("ack", "auto")
    if mode not in ACK_MODES:
        invalid_header(f"'ack' is one of {', '.join(ACK_MODES)}")
    prefetch = _number(headers, "prefetch-count", PREFETCH_MAX)
    priority = _number(headers, "x-priority", 255)
    if destination.kind == "topic":
        check_key(connection, "read", destination.exchange, destination.routing_key)
    queue = await endpoints.ensure_source(connection, destination, headers)
    check_queue(connection, "read", queue.name)
    _check_new(connection, tag)
    if connection.is_lost:
        return
    filters = headers.get("x-stream-filter")
    subscription = Subscription(
        connection,
        queue,
        tag,
        headers.get("id"),
        cast(AckMode, mode),
        destination=headers["destination"],
        prefetch=prefetch,
        priority=priority,
        start=_start(headers),
        wanted=None if filters is None else frozenset(part.strip() for part in filters.split(",")),
        takes_unfiltered=headers.get("x-stream-match-unfiltered") == "true",
    )
    _attach(connection, queue, subscription, _wants(connection, queue, headers))


def _attach(
    connection: StompConnection, queue: Queue, subscription: Subscription, wants: Callable[[Message], bool] | None
) -> None:
    words = queue_words(queue.name, connection.host)
    if queue.properties.kind == "stream":
        if subscription.mode == "auto":
            precondition_failed(f"automatic acknowledgement not supported by stream {words}")
        if not subscription.prefetch:
            precondition_failed(f"consumer prefetch count is not set for stream {words}")
    connection.subscriptions[subscription.tag] = subscription
    subscription.adjust()
    try:
        queue.attach(subscription, wants)
        queue.prepare()
    except QueueBusy:
        del connection.subscriptions[subscription.tag]
        access_refused(f"{words} in exclusive use")


def _check_lasting(headers: Mapping[str, str]) -> None:
    if is_lasting(headers) and "id" not in headers:
        raise StompError("Missing Header", "Header 'id' is required for durable subscriptions")


def _check_new(connection: StompConnection, tag: str) -> None:
    if tag in connection.subscriptions:
        raise StompError("Duplicated subscription identifier", f"A subscription identified by '{tag}' already exists.")
    limit = connection.session.settings.subscriptions_max
    if len(connection.subscriptions) >= limit:
        raise StompError("Subscription limit exceeded", f"A connection has at most {limit} subscriptions\n")


def _tag(head: Head) -> str:
    """By which messages and acknowledgements name a subscription."""
    identifier = head.headers.get("id")
    if identifier is not None:
        if identifier.startswith(TEMP_PREFIX):
            raise StompError("Invalid id", f"{head.command} 'id' may not start with {TEMP_PREFIX}\n")
        return consumer_tag(identifier)
    destination = head.headers.get("destination")
    if destination is None:
        raise StompError("Missing destination or id", f"{head.command} must include a 'destination' or 'id' header")
    return destination_tag(destination)


def _number(headers: Mapping[str, str], name: str, most: int) -> int:
    text = headers.get(name, "0")
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) <= most):
        invalid_header(f"'{name}' is a number up to {most}")
    return int(text)


def _wants(connection: StompConnection, queue: Queue, headers: Mapping[str, str]) -> Callable[[Message], bool] | None:
    text = headers.get("selector")
    if text is None:
        return None
    if queue.properties.kind == "stream":
        invalid_header("a stream is read whole: 'selector' is for other queues")
    return read_selector(text, connection.node.broker.envelopes)


def _start(headers: Mapping[str, str]) -> StreamStart | None:
    """`x-stream-offset`: first, last, next, offset=N, timestamp=N in seconds."""
    text = headers.get("x-stream-offset")
    if text is None:
        return None
    if text in STREAM_STARTS:
        return StreamStart(text)  # type: ignore[arg-type]
    kind, _, digits = text.partition("=")
    if kind in ("offset", "timestamp") and digits.isascii() and digits.isdecimal() and len(digits) < 16:
        return StreamStart("offset", int(digits)) if kind == "offset" else StreamStart("time", int(digits) * 1_000)
    raise StompError("Invalid header", "'x-stream-offset' is first, last, next, offset=N or timestamp=N\n")


async def unsubscribe(connection: StompConnection, head: Head, body: bytes) -> None:
    """UNSUBSCRIBE. Deliveries that wait for their acknowledgement may still be acknowledged."""
    _check_lasting(head.headers)
    subscription = connection.subscriptions.pop(_tag(head), None)
    if subscription is None:
        named = head.headers.get("id")
        words = f"id='{named}'" if named is not None else f"destination='{head.headers.get('destination')}'"
        raise StompError(
            "No subscription found",
            f"UNSUBSCRIBE must refer to an existing subscription.\nSubscription to {words} not found.\n",
        )
    queue = subscription.queue
    queue.detach(subscription)
    if subscription.unacked:
        connection.ended.append(subscription)
        if len(connection.ended) > ENDED_MAX:
            connection.settling.requeue(connection.ended.pop(0).take_all(), failed=True, error="its subscription ended")
    is_topic = parse_destination(subscription.destination).kind in ("topic", "exchange")
    if is_topic and is_lasting(head.headers) and not queue.is_gone:
        check_queue(connection, "configure", queue.name)
        await connection.queues.delete(queue)


FRAMES = {"SUBSCRIBE": subscribe, "UNSUBSCRIBE": unsubscribe}
