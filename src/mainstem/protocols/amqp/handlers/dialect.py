"""AMQP as the rest of the broker meets it: how its messages are addressed, and how administrators see it.

Both are added to the broker when it starts, whether AMQP listens or not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from mainstem.broker.broker import Broker
from mainstem.broker.dialect import ChannelFacts, ConnectionFacts, ConsumerFacts, NotInDialect, Opened, Sealed
from mainstem.broker.envelopes import Address
from mainstem.broker.queues import Message, QueueProperties
from mainstem.model.header_names import KEY_HEADER
from mainstem.protocols.amqp.codec.properties import (
    LAYOUT,
    OCTET,
    TIMESTAMP,
    Properties,
    decode_properties,
    encode_properties,
)
from mainstem.protocols.amqp.errors import CONNECTION_FORCED, AmqpError, ConnectionError_
from mainstem.protocols.amqp.handlers.publish.plans import expiration_ms
from mainstem.protocols.amqp.mapping.arguments import check_equivalent, declared_arguments, queue_properties
from mainstem.protocols.amqp.mapping.envelope import MARKS, Envelopes, further_keys, seal
from mainstem.protocols.amqp.mapping.values import plain_table, readable, table_of

if TYPE_CHECKING:
    from mainstem.protocols.amqp.handlers.channel import Channel
    from mainstem.protocols.amqp.handlers.connection import AmqpConnection

P = ParamSpec("P")
T = TypeVar("T")

_KINDS = {name: kind for _, name, kind in LAYOUT}
ORIGIN = "amqp"


def _in_words(function: Callable[P, T]) -> Callable[P, T]:
    """What AMQP refuses, as management can pass it on."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except AmqpError as error:
            raise NotInDialect(error.explanation) from None

    return call


class AmqpDialect:
    """Over all connections of a broker."""

    def __init__(self, envelopes: Envelopes) -> None:
        self.envelopes = envelopes
        self.clients: dict[AmqpConnection, None] = {}
        """Who is connected, of all listeners."""

    @_in_words
    def queue_properties(
        self,
        name: str,
        arguments: Mapping[str, object],
        *,
        durable: bool,
        auto_delete: bool,
        exclusive: bool = False,
        hidden: bool = False,
    ) -> QueueProperties:
        """What a declaration with these arguments asks for."""
        table = table_of(arguments)
        return queue_properties(
            table,
            f"queue '{name}'",
            durable=durable and not exclusive,
            exclusive=exclusive,
            auto_delete=auto_delete,
            hidden=hidden,
        )

    def queue_arguments(self, properties: QueueProperties) -> Mapping[str, Any]:
        """Arguments as they were declared."""
        return plain_table(declared_arguments(properties))

    @_in_words
    def check_same(self, name: str, present: QueueProperties, wanted: QueueProperties) -> None:
        """Whether a queue that is there may be declared like this."""
        check_equivalent(present, wanted, f"queue '{name}'")

    @_in_words
    def seal(self, address: Address, properties: Mapping[str, Any]) -> Sealed:
        """A message to be published."""
        exchange, (routing_key, *_) = address
        decoded = _checked(properties)
        headers = decoded.get("headers", {})
        keys = (routing_key, *further_keys(headers, "CC"), *further_keys(headers, "BCC"))
        headers.pop("BCC", None)
        ttl_ms = expiration_ms(decoded["expiration"]) if "expiration" in decoded else -1
        return Sealed(
            headers=seal(exchange, routing_key, encode_properties(decoded), decoded, ttl_ms),
            key=readable(headers[KEY_HEADER]) if KEY_HEADER in headers else None,
            ttl_ms=ttl_ms,
            priority=decoded.get("priority", 0),
            routing_keys=keys,
            plain_headers=plain_table(headers),
        )

    def open(self, message: Message) -> Opened:
        """A message of a queue."""
        envelope = self.envelopes.open(message)
        properties = decode_properties(envelope.properties)
        if "headers" in properties:
            properties["headers"] = plain_table(properties["headers"])
        return Opened(Address(envelope.exchange, (envelope.routing_key,)), properties)

    def connections(self) -> list[ConnectionFacts]:
        """Who is connected."""
        return [_describe(connection) for connection in self.clients]


def introduce(broker: Broker) -> AmqpDialect:
    """Say to a broker, once, how messages of AMQP are addressed and worded."""
    known = broker.dialects.get(ORIGIN)
    if isinstance(known, AmqpDialect):
        return known
    dialect = AmqpDialect(Envelopes())
    broker.envelopes.add(ORIGIN, MARKS, dialect.envelopes)
    broker.dialects.add(ORIGIN, dialect)
    return dialect


def _describe(connection: AmqpConnection) -> ConnectionFacts:
    def close(reason: str) -> None:
        connection.session.fail(ConnectionError_(CONNECTION_FORCED, reason))

    session = connection.session
    return ConnectionFacts(
        connection.name,
        connection.endpoints,
        connection.user,
        connection.mechanism,
        connection.namespace,
        connection.connected_ms,
        session.channel_max,
        session.frame_bytes_max,
        session.heartbeat.interval_s,
        plain_table(session.client_properties),
        [_describe_channel(channel) for channel in connection.channels],
        close,
    )


def _describe_channel(channel: Channel) -> ChannelFacts:
    return ChannelFacts(
        channel.number,
        channel.prefetch,
        channel.prefetch_all,
        len(channel.unacked),
        channel.publisher.unconfirmed,
        channel.publisher.is_confirming,
        channel.publisher.transaction is not None,
        [
            ConsumerFacts(
                consumer.tag,
                consumer.queue,
                consumer.prefetch,
                not consumer.no_ack,
                consumer.is_exclusive,
                consumer.is_active,
                consumer.timeout_ms,
                plain_table(consumer.arguments),
            )
            for consumer in channel.consumers.values()
        ],
    )


def _checked(properties: Mapping[str, Any]) -> Properties:
    """Properties of the right types, as JSON can have them. Raises NotInDialect."""
    decoded: Properties = {}
    for name, value in properties.items():
        kind = _KINDS.get(name)
        if kind is None:
            raise NotInDialect(f"unknown property {name}")
        if name == "headers":
            if not isinstance(value, Mapping):
                raise NotInDialect("headers is a table")
            decoded[name] = table_of(value)
        elif kind in (OCTET, TIMESTAMP):
            limit = 255 if kind == OCTET else (1 << 64) - 1
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= limit:
                raise NotInDialect(f"{name} is a number up to {limit}")
            decoded[name] = value
        else:
            text = str(value)
            if len(text.encode()) > 255:
                raise NotInDialect(f"{name} is longer than 255 bytes")
            decoded[name] = text
    return decoded
