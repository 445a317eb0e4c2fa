"""Deliveries: messages of a queue as frames, as many as the consumer may have and its connection takes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from mainstem.broker.queues import Message, Queue
from mainstem.protocols.amqp.codec.field_table import Field, Table
from mainstem.protocols.amqp.codec.framing import METHOD, encode_content, encode_frame
from mainstem.protocols.amqp.codec.methods import encode_method, encode_short_string
from mainstem.protocols.amqp.handlers.deliver.frames import DeliveryFrames, Template
from mainstem.protocols.amqp.mapping.envelope import Envelope, with_headers

if TYPE_CHECKING:
    from mainstem.protocols.amqp.handlers.channel import Channel

UNLIMITED = 1_000
"""What a consumer without a prefetch limit may take in one turn."""
UNACKNOWLEDGED_MAX = 200_000
"""What it may hold in all: unacknowledged messages are kept in memory."""

_FRAME = struct.Struct(">BHI")
_TAG = struct.Struct(">Q")
_CONTENT = struct.Struct(">BHIHHQ")
_DELIVER = b"\x00\x3c\x00\x3c"


class ChannelConsumer:
    """One basic.consume."""

    def __init__(
        self,
        channel: Channel,
        queue: Queue,
        tag: str,
        *,
        prefetch: int,
        no_ack: bool,
        exclusive: bool,
        priority: int,
        arguments: Table,
        timeout_ms: int,
    ) -> None:
        self.queue = queue
        self.tag = tag
        self.prefetch = prefetch
        self.no_ack = no_ack
        self.arguments = arguments
        self.timeout_ms = timeout_ms
        self.priority = priority
        self.is_exclusive = exclusive
        self.is_active = not queue.consumers.is_single
        self.room = 0
        self.room_bytes = -1
        self.outstanding = 0
        """Delivered and not acknowledged."""
        self._channel = channel
        self._connection = channel.connection
        self._session = channel.connection.session
        self._open = channel.connection.node.envelopes.open
        self._tag = encode_short_string(tag)
        self._frames = DeliveryFrames(self._template, self._encode)

    # What queues call

    def deliver(self, queue: Queue, messages: list[Message]) -> None:
        """Send them."""
        channel = self._channel
        tag = channel.next_tag
        frames = self._frames.encode(messages, tag)
        channel.next_tag = tag + len(messages)
        if self.no_ack:
            self._connection.settling.settle(messages)
            self._connection.node.meters.deliver.requests += len(messages)
        else:
            channel.unacked.add(tag, self, messages)
            self.outstanding += len(messages)
            channel.delivered(self, len(messages))
        self._session.say(frames)
        self._connection.said()
        self.adjust()

    def cancelled(self) -> None:
        """The queue is gone."""
        self._channel.consumer_cancelled(self)

    def activated(self, is_active: bool) -> None:
        """Of a queue that serves one at a time."""
        self.is_active = is_active

    # Room

    def adjust(self) -> None:
        """How much may be delivered now."""
        connection = self._connection
        if not connection.has_room or connection.session.is_output_paused:
            self.room = 0
            return
        if self.no_ack:
            room = UNLIMITED
        elif self.prefetch:
            room = self.prefetch - self.outstanding
        else:
            room = min(UNLIMITED, UNACKNOWLEDGED_MAX - self.outstanding)
        limit = self._channel.room_left(self)
        self.room = max(room if limit is None or room < limit else limit, 0)
        self.room_bytes = max(self._channel.output_room(), 1)

    def wake(self) -> None:
        """There may be room: look for messages."""
        if self.room:
            self.queue.wake()

    # Frames

    def _template(self, message: Message) -> Template | None:
        """What is the same for all messages with these headers and of this size."""
        size = len(message.value)
        if size > self._session.payload_bytes_max or message.deliveries:
            return None
        envelope = self._open(message)
        number = self._channel.number
        return (
            self._head(envelope),
            b"".join(
                (
                    b"\0",
                    envelope.address,
                    b"\xce",
                    _CONTENT.pack(2, number, 12 + len(envelope.properties), 60, 0, size),
                    envelope.properties,
                    b"\xce" + _FRAME.pack(3, number, size) if size else b"",
                )
            ),
            envelope.is_lasting,
        )

    def _head(self, envelope: Envelope) -> bytes:
        length = 4 + len(self._tag) + 9 + len(envelope.address)
        return _FRAME.pack(METHOD, self._channel.number, length) + _DELIVER + self._tag

    def _encode(self, message: Message, tag: int) -> bytes:
        """One that is large, or needs headers of its own."""
        envelope = self._envelope(message)
        redelivered = b"\1" if message.deliveries else b"\0"
        method = b"".join((self._head(envelope), _TAG.pack(tag), redelivered, envelope.address, b"\xce"))
        content = encode_content(
            self._channel.number, envelope.properties, message.value, self._session.payload_bytes_max
        )
        return method + content

    def _envelope(self, message: Message) -> Envelope:
        envelope = self._open(message)
        if message.deliveries:
            return envelope._replace(properties=with_headers(envelope.properties, delivery_counts(message)))
        return envelope


def delivery_counts(message: Message) -> Table:
    """What is said of a message that was given out before: RabbitMQ says it of quorum queues alone."""
    return {
        "x-acquired-count": Field("long", message.deliveries),
        "x-delivery-count": Field("long", message.failures),
    }


def encode_got(number: int, envelope: Envelope, message: Message, tag: int, left: int, payload_bytes_max: int) -> bytes:
    """The answer to basic.get."""
    properties = envelope.properties
    if message.deliveries:
        properties = with_headers(properties, delivery_counts(message))
    method = encode_method(
        "basic.get-ok",
        delivery_tag=tag,
        redelivered=message.deliveries > 0,
        exchange=envelope.exchange,
        routing_key=envelope.routing_key,
        message_count=left,
    )
    return encode_frame(METHOD, number, method) + encode_content(number, properties, message.value, payload_bytes_max)
