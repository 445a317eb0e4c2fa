"""Deliveries of streams: each consumer reads from where it likes, and takes nothing from the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from mainstem.broker.queues import Message, Queue, StreamStart
from mainstem.protocols.amqp.codec.field_table import Field
from mainstem.protocols.amqp.codec.properties import decode_properties
from mainstem.protocols.amqp.handlers.deliver.consumers import ChannelConsumer
from mainstem.protocols.amqp.mapping.arguments import age_ms
from mainstem.protocols.amqp.mapping.envelope import Envelope, with_headers

if TYPE_CHECKING:
    from mainstem.protocols.amqp.handlers.channel import Channel

WORDS: dict[bytes, Literal["first", "last", "next"]] = {b"first": "first", b"last": "last", b"next": "next"}
FILTER_HEADER = "x-stream-filter-value"


class StreamConsumer(ChannelConsumer):
    """One basic.consume of a stream."""

    def __init__(self, channel: Channel, queue: Queue, tag: str, **options: Any) -> None:
        super().__init__(channel, queue, tag, **options)
        self.start = self._where()
        """Where to begin."""
        wanted = self.arguments.get("x-stream-filter")
        self._wanted = None if wanted is None else _filters(wanted)
        self._unfiltered = self.arguments.get("x-stream-match-unfiltered") == Field("bool", True)

    def deliver(self, queue: Queue, messages: list[Message]) -> None:
        """Those that pass the filter."""
        if self._wanted is not None:
            passed = [message for message in messages if self._passes(message)]
            if len(passed) < len(messages):
                self._connection.settling.settle([message for message in messages if message not in passed])
            messages = passed
        if messages:
            super().deliver(queue, messages)

    def _template(self, message: Message) -> None:
        return None  # Each message carries its offset.

    def _envelope(self, message: Message) -> Envelope:
        envelope = super()._envelope(message)
        properties = with_headers(envelope.properties, {"x-stream-offset": Field("long", message.offset)})
        return envelope._replace(properties=properties)

    def _passes(self, message: Message) -> bool:
        assert self._wanted is not None
        value = decode_properties(self._open(message).properties).get("headers", {}).get(FILTER_HEADER)
        return self._unfiltered if value is None else value.value in self._wanted

    def _where(self) -> StreamStart:
        field = self.arguments.get("x-stream-offset")
        if field is None:
            return StreamStart("next")
        if field.type == "timestamp":
            return StreamStart("time", field.value * 1000)
        if field.type == "longstr":
            age = age_ms(field.value)
            if age is not None:
                return StreamStart("time", self._connection.queues.now_ms() - age)
            return StreamStart(WORDS[field.value])
        return StreamStart("offset", field.value)


def _filters(field: Field) -> frozenset[bytes]:
    """One value, or several."""
    entries = field.value if field.type == "array" else [field]
    return frozenset(entry.value for entry in entries if entry.type == "longstr")
