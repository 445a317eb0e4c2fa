"""The queues behind destinations: declared with their first use, bound where a subscription needs it. All raise StompError."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, NoReturn

import msgspec

from mainstem.broker.errors import InvalidBinding, InvalidQueue, PropertiesDiffer, QueueLocked, UnknownExchange
from mainstem.broker.queues import Queue, QueueProperties
from mainstem.broker.routes import Destination as RouteDestination
from mainstem.broker.routes import DestinationKind
from mainstem.protocols.stomp.errors import StompError, not_found, precondition_failed, resource_locked
from mainstem.protocols.stomp.handlers.permissions import check_exchange, check_key, check_queue, check_queue_count
from mainstem.protocols.stomp.mapping.declarations import Wish, is_lasting, read_wish
from mainstem.protocols.stomp.mapping.destinations import NAME_BYTES_MAX, Destination
from mainstem.protocols.stomp.mapping.words import exchange_words, queue_words

if TYPE_CHECKING:
    from mainstem.protocols.stomp.handlers.connection import StompConnection

SUBSCRIPTION_PREFIX, REPLY_QUEUE_PREFIX = "stomp-subscription-", "stomp.gen-"
QUEUE_NAME = "x-queue-name"


def find(connection: StompConnection, name: str) -> Queue:
    """A queue that this connection may use."""
    queue = connection.queues.find(connection.namespace, name)
    if queue is None:
        not_found(f"no {queue_words(name, connection.host)}")
    if queue.owner is not None and queue.owner is not connection:
        _refuse_access(connection, name)
    return queue


def _refuse_access(connection: StompConnection, name: str) -> NoReturn:
    resource_locked(f"cannot obtain exclusive access to locked {queue_words(name, connection.host)}")


async def declare(connection: StompConnection, name: str, wish: Wish, *, hidden: bool = False) -> Queue:
    """The queue, there already or new."""
    check_queue(connection, "configure", name)
    known = connection.queues.find(connection.namespace, name)
    if known is None:
        if name.startswith("amq."):
            raise StompError("access_refused", f"queue name '{name}' contains reserved prefix 'amq.*'")
        check_queue_count(connection, name)
    target = wish.arguments.get("x-dead-letter-exchange")
    if target is not None:
        check_queue(connection, "read", name)
        check_exchange(connection, "write", str(target))
    wanted = _properties(connection, name, wish, hidden=hidden)
    if known is not None:
        if (known.owner is not None) != wanted.exclusive or known.owner not in (None, connection):
            _refuse_access(connection, name)
        connection.node.dialect.check_same(name, known.properties, wanted)
        known.used_ms = connection.queues.now_ms()
        return known
    try:
        queue = await connection.queues.declare(
            connection.namespace, name, wanted, owner=connection if wanted.exclusive else None
        )
    except QueueLocked:
        _refuse_access(connection, name)
    except (PropertiesDiffer, InvalidQueue) as error:
        precondition_failed(f"{queue_words(name, connection.host)}: {error}")
    if wanted.exclusive:
        connection.owned.append(queue)
    return queue


def _properties(connection: StompConnection, name: str, wish: Wish, *, hidden: bool) -> QueueProperties:
    arguments = dict(wish.arguments)
    home = connection.node.broker.namespaces.find(connection.namespace)
    if wish.durable and not (wish.exclusive or wish.auto_delete) and home is not None and home.default_queue_kind:
        arguments.setdefault("x-queue-type", home.default_queue_kind)
    return connection.node.dialect.queue_properties(
        name,
        arguments,
        durable=wish.durable,
        auto_delete=wish.auto_delete,
        exclusive=wish.exclusive,
        hidden=hidden,
    )


async def ensure_source(connection: StompConnection, destination: Destination, headers: Mapping[str, str]) -> Queue:
    """The queue of a SUBSCRIBE; that of a topic or an exchange is the subscription's own."""
    if destination.kind in ("amqqueue", "reply_queue"):
        return find(connection, destination.name)
    if destination.kind == "queue":
        return await declare(connection, destination.name, read_wish(headers, durable=True))
    if destination.kind == "temp_queue":
        raise StompError(
            "Invalid destination", f"'{headers['destination']}' is not a valid destination for 'SUBSCRIBE'\n"
        )
    lasting = is_lasting(headers)
    wish = read_wish({**headers, "durable": "true" if lasting else "false"}, durable=lasting)
    name = _subscription_name(connection, destination, headers, lasting=lasting)
    queue = await declare(connection, name, wish, hidden=QUEUE_NAME not in headers)
    await _bind(connection, queue, destination)
    return queue


def _subscription_name(
    connection: StompConnection, destination: Destination, headers: Mapping[str, str], *, lasting: bool
) -> str:
    named = headers.get(QUEUE_NAME)
    if named is not None:
        if not 0 < len(named.encode()) <= NAME_BYTES_MAX:
            raise StompError("Invalid header", f"'{QUEUE_NAME}' is a name of at most {NAME_BYTES_MAX} bytes\n")
        return named
    if not lasting:
        return connection.node.new_name(SUBSCRIPTION_PREFIX)
    # The same for the same subscription, so that it is found again.
    identity = msgspec.msgpack.encode([destination.exchange, destination.routing_key, headers.get("id", "")])
    digest = hashlib.md5(identity, usedforsecurity=False).digest()
    return SUBSCRIPTION_PREFIX + urlsafe_b64encode(digest).rstrip(b"=").decode()


async def _bind(connection: StompConnection, queue: Queue, destination: Destination) -> None:
    exchange, key = destination.exchange, destination.routing_key
    check_queue(connection, "write", queue.name)
    check_exchange(connection, "read", exchange)
    check_key(connection, "read", exchange, key)
    try:
        await connection.router.bind(
            exchange,
            RouteDestination(DestinationKind.QUEUE, queue.name),
            key,
            {},
            durable=queue.properties.is_lasting,
        )
    except UnknownExchange:
        not_found(f"no {exchange_words(exchange, connection.host)}")
    except InvalidBinding as error:
        precondition_failed(str(error))


async def reply_queue(connection: StompConnection, temp_id: str) -> tuple[Queue, bool]:
    """The queue that a /temp-queue stands for; and whether it is new."""
    known = connection.reply_queues.get(temp_id)
    if known is not None and not known.is_gone:
        return known, False
    name = connection.node.new_name(REPLY_QUEUE_PREFIX)
    queue = await declare(connection, name, Wish(False, True, True, {}), hidden=True)
    connection.reply_queues[temp_id] = queue
    return queue, True
