"""The methods of class queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from mainstem.broker.errors import (
    InvalidBinding,
    InvalidQueue,
    PropertiesDiffer,
    QueueInUse,
    QueueLocked,
    QueueNotEmpty,
    UnknownExchange,
    UnknownQueue,
)
from mainstem.broker.queues import Queue, QueueProperties
from mainstem.broker.routes import Destination, DestinationKind
from mainstem.protocols.amqp.codec.field_table import Field, Table, text
from mainstem.protocols.amqp.codec.methods import Method
from mainstem.protocols.amqp.errors import (
    access_refused,
    not_found,
    not_implemented,
    precondition_failed,
    resource_locked,
)
from mainstem.protocols.amqp.handlers.limits import check_queues
from mainstem.protocols.amqp.handlers.methods.exchanges import check_not_default
from mainstem.protocols.amqp.handlers.permissions import check_exchange, check_key, check_queue
from mainstem.protocols.amqp.handlers.publish.plans import REPLY_TO
from mainstem.protocols.amqp.mapping.arguments import (
    NAME_PREFIX,
    PREFIX_BYTES_MAX,
    check_equivalent,
    queue_properties,
    queue_type,
)
from mainstem.protocols.amqp.mapping.values import plain_table
from mainstem.protocols.amqp.mapping.words import exchange_words, inequivalent, plain_name, queue_words

if TYPE_CHECKING:
    from mainstem.protocols.amqp.handlers.channel import Channel

SERVER_NAMED_PREFIX = "amq.gen-"


def named(channel: Channel, name: str) -> str:
    """The queue that is meant: an empty name means the one declared last. Raises ChannelError."""
    if name:
        return name
    if not channel.last_queue:
        not_found("no previously declared queue")
    return channel.last_queue


def find(channel: Channel, name: str) -> Queue:
    """A queue that this connection may use. Raises ChannelError."""
    connection = channel.connection
    queue = connection.queues.find(connection.namespace, name)
    if queue is None:
        not_found(f"no {queue_words(name, connection.host)}")
    check_access(channel, queue)
    return queue


def check_access(channel: Channel, queue: Queue) -> None:
    """Whether no other connection has it to itself. Raises ChannelError."""
    if queue.owner is not None and queue.owner is not channel.connection:
        _refuse_access(channel, queue.name)


def _refuse_access(channel: Channel, name: str) -> NoReturn:
    resource_locked(
        f"cannot obtain exclusive access to locked {queue_words(name, channel.connection.host)}. It could be originally "
        "declared on another connection or the exclusive property value does not match that of the original declaration."
    )


async def declare(channel: Channel, method: Method) -> None:
    """queue.declare."""
    name = plain_name(method["queue"])
    if name.startswith(REPLY_TO):
        if name != REPLY_TO and name not in channel.connection.node.reply_channels:
            not_found(f"no {queue_words(name, channel.connection.host)}")
        counts = (0, 1)
    elif method["passive"]:
        name = named(channel, name)
        queue = find(channel, name)
        queue.used_ms = channel.connection.queues.now_ms()
        await channel.connection.queues.know((queue,))
        counts = (queue.ready_count, queue.consumer_count)
    else:
        queue = await _declare(channel, method, name)
        name = queue.name
        await channel.connection.queues.know((queue,))
        counts = (queue.ready_count, queue.consumer_count)
    channel.last_queue = name
    if not method["nowait"]:
        channel.reply("queue.declare-ok", queue=name, message_count=counts[0], consumer_count=counts[1])


async def _declare(channel: Channel, method: Method, name: str) -> Queue:
    connection = channel.connection
    arguments: Table = dict(method["arguments"])
    prefix = arguments.pop(NAME_PREFIX, None)
    is_unnamed = not name
    if is_unnamed:
        name = _new_name(channel, arguments, prefix)
    words = queue_words(name, connection.host)
    check_queue(connection, "configure", name)
    known = connection.queues.find(connection.namespace, name)
    if known is None:
        if name.startswith("amq.") and not is_unnamed:
            access_refused(f"queue name '{name}' contains reserved prefix 'amq.*'")
        _check_dead_letters(channel, name, arguments)
        check_queues(connection, name)
    exclusive = method["exclusive"]
    if method["durable"] and not (exclusive or method["auto_delete"]):
        _add_default_type(channel, arguments)
    wanted = queue_properties(
        arguments,
        words,
        durable=method["durable"] and not exclusive,
        exclusive=exclusive,
        auto_delete=method["auto_delete"],
        hidden=is_unnamed,
    )
    if known is not None:
        return _redeclare(channel, known, wanted, words)
    return await _create(channel, name, wanted, words)


def _new_name(channel: Channel, arguments: Table, prefix: Field | None) -> str:
    kind = queue_type(arguments, queue_words("", channel.connection.host))
    if kind != "classic":
        precondition_failed(f"Cannot declare a server-named queue for type rabbit_{kind}_queue")
    return channel.connection.node.new_name(_prefix(prefix))


def _check_dead_letters(channel: Channel, name: str, arguments: Table) -> None:
    """Whether this user may have the queue send its dead letters there. Raises ChannelError."""
    target = arguments.get("x-dead-letter-exchange")
    if target is None:
        return
    if target.type != "longstr":
        words = queue_words(name, channel.connection.host)
        precondition_failed(f"invalid type '{target.type}' for arg 'x-dead-letter-exchange' in {words}")
    check_queue(channel.connection, "read", name)
    check_exchange(channel.connection, "write", target.value.decode("utf-8", "replace"))


def _add_default_type(channel: Channel, arguments: Table) -> None:
    """A virtual host may have a type of its own for queues that name none."""
    home = channel.connection.node.broker.namespaces.find(channel.connection.namespace)
    if "x-queue-type" not in arguments and home is not None and home.default_queue_kind:
        arguments["x-queue-type"] = text(home.default_queue_kind)


async def _create(channel: Channel, name: str, wanted: QueueProperties, words: str) -> Queue:
    connection = channel.connection
    try:
        queue = await connection.queues.declare(
            connection.namespace, name, wanted, owner=connection if wanted.exclusive else None
        )
    except QueueLocked:
        _refuse_access(channel, name)
    except PropertiesDiffer as difference:
        precondition_failed(inequivalent(difference.field, words, difference.wanted, difference.present))
    except InvalidQueue as error:
        precondition_failed(str(error))
    if wanted.exclusive:
        connection.owned.append(queue)
        if connection.is_lost:
            await connection.delete_owned()
    return queue


def _redeclare(channel: Channel, known: Queue, wanted: QueueProperties, words: str) -> Queue:
    if (known.owner is not None) != wanted.exclusive or known.owner not in (None, channel.connection):
        _refuse_access(channel, known.name)
    check_equivalent(known.properties, wanted, words)
    known.used_ms = channel.connection.queues.now_ms()
    return known


def _prefix(field: Field | None) -> str:
    value = None if field is None else field.value
    if not isinstance(value, bytes):
        return SERVER_NAMED_PREFIX
    prefix = plain_name(value.decode("utf-8", "replace"))
    if len(value) > PREFIX_BYTES_MAX:
        precondition_failed(f"Queue name prefix '{prefix}' exceeds the 64-byte limit")
    return prefix


async def bind(channel: Channel, method: Method) -> None:
    """queue.bind."""
    await _bind(channel, method, adding=True)
    if not method["nowait"]:
        channel.reply("queue.bind-ok")


async def unbind(channel: Channel, method: Method) -> None:
    """queue.unbind."""
    await _bind(channel, method, adding=False)
    channel.reply("queue.unbind-ok")


async def _bind(channel: Channel, method: Method, *, adding: bool) -> None:
    connection = channel.connection
    router = connection.router
    name = named(channel, plain_name(method["queue"]))
    key = method["routing_key"]
    if not method["queue"] and not key:
        key = name
    exchange = plain_name(method["exchange"])
    if name.startswith(REPLY_TO):
        access_refused("cannot bind or unbind to a volatile (direct reply-to) queue")
    check_queue(connection, "write", name)
    check_not_default(exchange)
    check_exchange(connection, "read", exchange)
    check_key(connection, "read", exchange, key)
    queue = connection.queues.find(connection.namespace, name)
    if queue is not None:
        check_access(channel, queue)
    destination = Destination(DestinationKind.QUEUE, name)
    arguments = plain_table(method["arguments"])
    try:
        if adding:
            if queue is None:
                not_found(f"no {queue_words(name, connection.host)}")
            await router.bind(exchange, destination, key, arguments, durable=queue.properties.is_lasting)
        else:
            await router.unbind(exchange, destination, key, arguments)
    except UnknownExchange:
        if adding:
            not_found(f"no {exchange_words(exchange, connection.host)}")
    except InvalidBinding as error:
        precondition_failed(str(error))


async def purge(channel: Channel, method: Method) -> None:
    """queue.purge."""
    name = named(channel, method["queue"])
    check_queue(channel.connection, "read", name)
    queue = find(channel, name)
    if queue.properties.kind == "stream":
        words = queue_words(queue.name, channel.connection.host)
        not_implemented(f"queue.purge not supported by stream queues {words}")
    count = await channel.connection.queues.purge(queue)
    if not method["nowait"]:
        channel.reply("queue.purge-ok", message_count=count)


async def delete(channel: Channel, method: Method) -> None:
    """queue.delete. The channel's own consumers are told behind the answer, as RabbitMQ does; others at once."""
    channel.hold_cancels()
    try:
        count = await _delete(channel, method)
        if not method["nowait"]:
            channel.reply("queue.delete-ok", message_count=count)
    finally:
        channel.release_cancels()


async def _delete(channel: Channel, method: Method) -> int:
    """How many messages went with the queue; there may be none of this name."""
    connection = channel.connection
    name = plain_name(named(channel, method["queue"]))
    check_queue(connection, "configure", name)
    queue = connection.queues.find(connection.namespace, name)
    if queue is None:
        return 0
    check_access(channel, queue)
    words = queue_words(name, connection.host)
    try:
        return await connection.queues.delete(queue, if_unused=method["if_unused"], if_empty=method["if_empty"])
    except QueueInUse:
        precondition_failed(f"{words} in use")
    except QueueNotEmpty:
        precondition_failed(f"{words} not empty")
    except UnknownQueue:
        return 0


METHODS = {
    "queue.declare": declare,
    "queue.bind": bind,
    "queue.unbind": unbind,
    "queue.purge": purge,
    "queue.delete": delete,
}
