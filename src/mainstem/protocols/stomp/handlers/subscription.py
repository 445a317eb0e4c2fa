"""One subscription: messages of a queue as MESSAGE frames, as many as the client may have and its connection takes.

All of a frame but its numbers and its body is the same for messages with the same headers: it is written once and kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from mainstem.broker.queues import Message, Queue, StreamStart
from mainstem.protocols.stomp.codec.escapes import V1_2
from mainstem.protocols.stomp.codec.frames import encode_headers
from mainstem.protocols.stomp.errors import StompError
from mainstem.protocols.stomp.mapping.destinations import write_destination
from mainstem.protocols.stomp.mapping.properties import write_properties
from mainstem.protocols.stomp.session.machine import OUTPUT_BYTES_MAX, encode_error

if TYPE_CHECKING:
    from mainstem.protocols.stomp.handlers.connection import StompConnection

AckMode: TypeAlias = Literal["auto", "client", "client-individual"]

UNLIMITED = 1_000
"""What a subscription without a prefetch limit may take in one turn."""
UNACKNOWLEDGED_MAX = 200_000
"""What it may hold in all: unacknowledged messages are kept in memory."""
HEADERS_KEPT_MAX, HEADERS_KEPT_BYTES_MAX = 256, 2_048
SEPARATOR = "@@"
FILTER_HEADER = "x-stream-filter-value"


def consumer_tag(identifier: str) -> str:
    """Of a subscription with an id."""
    return f"T_{identifier}"


def destination_tag(destination: str) -> str:
    """Of one without."""
    return f"Q_{destination}"


class Subscription:
    """One SUBSCRIBE."""

    def __init__(
        self,
        connection: StompConnection,
        queue: Queue,
        tag: str,
        identifier: str | None,
        mode: AckMode,
        *,
        destination: str,
        prefetch: int = 0,
        priority: int = 0,
        start: StreamStart | None = None,
        wanted: frozenset[str] | None = None,
        takes_unfiltered: bool = False,
    ) -> None:
        self.queue = queue
        self.tag = tag
        self.identifier = identifier
        self.mode = mode
        self.destination = destination
        self.prefetch = prefetch
        self.priority = priority
        self.start = start or StreamStart("next")
        """Where to begin, in a stream."""
        self.is_exclusive = False
        self.room = 0
        self.room_bytes = -1
        self.unacked: dict[int, Message] = {}
        """Deliveries that wait for their acknowledgement, by number, in order."""
        self._connection = connection
        self._session = connection.session
        self._wanted = wanted
        self._takes_unfiltered = takes_unfiltered
        version = connection.session.version
        named = [] if identifier is None else [("subscription", identifier)]
        self._begin = b"MESSAGE\n" + encode_headers(named, version)
        identity = encode_headers([("message-id", f"{tag}{SEPARATOR}{connection.session_id}{SEPARATOR}")], version)
        self._number = identity[:-1]
        is_acked_by_header = version == V1_2 and mode != "auto"
        self._ack = identity[:-1].replace(b"message-id:", b"ack:", 1) if is_acked_by_header else b""
        self._is_stream = queue.properties.kind == "stream"
        self._headers: dict[tuple[bytes, int], bytes] = {}

    @property
    def description(self) -> str:
        """As errors name it."""
        return f"id='{self.identifier}'" if self.identifier is not None else f"destination='{self.destination}'"

    @property
    def oldest(self) -> int:
        """The first delivery that waits; 0: none does."""
        return next(iter(self.unacked), 0)

    # What queues call

    def deliver(self, queue: Queue, messages: list[Message]) -> None:
        """Send them."""
        connection = self._connection
        if self._wanted is not None:
            messages = self._filtered(messages)
            if not messages:
                return
        first = connection.next_tag
        connection.next_tag += len(messages)
        frames = b"".join([part for tag, message in enumerate(messages, first) for part in self._frame(message, tag)])
        if self.mode == "auto":
            connection.settling.settle(messages)
        else:
            self.unacked.update(zip(range(first, first + len(messages)), messages, strict=True))
            connection.times.add(first, connection.now)
        connection.node.count("MESSAGE", len(messages))
        self._session.say(frames)
        connection.said()
        self.adjust()

    def cancelled(self) -> None:
        """The queue is gone. The client is told; the connection goes on, as RabbitMQ's does."""
        if self._connection.subscriptions.pop(self.tag, None) is None:
            return
        self.unacked.clear()
        error = StompError(
            "Server cancelled subscription",
            f"The server has canceled a subscription.\nNo more messages will be delivered for {self.description}.\n",
        )
        self._session.say(encode_error(error, self._session.version, subscription=self.identifier or ""))

    def activated(self, is_active: bool) -> None:
        """Of a queue that serves one at a time: STOMP has no words for it."""

    # Acknowledgements

    def take(self, tag: int) -> list[Message]:
        """The message of this number, with all before it where acknowledgements are cumulative; none: it is not known."""
        if tag not in self.unacked:
            return []
        if self.mode != "client":
            return [self.unacked.pop(tag)]
        taken: list[int] = []
        for known in self.unacked:
            taken.append(known)
            if known == tag:
                break
        return [self.unacked.pop(known) for known in taken]

    def take_all(self) -> list[Message]:
        """All that waits; nothing does any longer."""
        messages, self.unacked = list(self.unacked.values()), {}
        return messages

    # Room

    def adjust(self) -> None:
        """How much may be delivered now."""
        connection = self._connection
        if not connection.has_room or self._session.is_output_paused:
            self.room = 0
            return
        if self.mode == "auto":
            self.room = UNLIMITED
        elif self.prefetch:
            self.room = max(self.prefetch - len(self.unacked), 0)
        else:
            self.room = max(min(UNLIMITED, UNACKNOWLEDGED_MAX - len(self.unacked)), 0)
        self.room_bytes = max(OUTPUT_BYTES_MAX - self._session.output_bytes, 1)

    def wake(self) -> None:
        """There may be room: look for messages."""
        if self.room:
            self.queue.wake()

    # Frames

    def _frame(self, message: Message, tag: int) -> tuple[bytes | memoryview, ...]:
        value = message.value
        size = b"content-length:%d\n\n" % len(value)
        number = b"%d\n" % tag
        if self._ack:
            return self._begin, self._number, number, self._ack, number, self._lines(message), size, value, b"\0\n"
        return self._begin, self._number, number, self._lines(message), size, value, b"\0\n"

    def _lines(self, message: Message) -> bytes:
        """The headers that say what the message is."""
        known = self._headers.get((message.headers, message.deliveries))
        if known is not None:
            return known
        broker = self._connection.node.broker
        opened = self._connection.node.dialect.open(message)
        headers = [
            ("destination", write_destination(opened.address.exchange, opened.address.key)),
            ("redelivered", "true" if message.deliveries else "false"),
            *write_properties(opened.properties),
        ]
        if self._is_stream:
            headers.append(("x-stream-offset", str(message.offset)))
        if message.deliveries:
            headers.append(("x-delivery-count", str(message.failures)))
        lines = encode_headers(headers, self._session.version)
        is_lasting = not (self._is_stream or message.deliveries) and broker.envelopes.is_lasting(message)
        if is_lasting and len(message.headers) <= HEADERS_KEPT_BYTES_MAX:
            if len(self._headers) >= HEADERS_KEPT_MAX:
                self._headers.clear()
            self._headers[message.headers, message.deliveries] = lines
        return lines

    def _filtered(self, messages: list[Message]) -> list[Message]:
        """Those of a stream that pass its filter; the others are done with."""
        assert self._wanted is not None
        passed: list[Message] = []
        others: list[Message] = []
        for message in messages:
            value = self._connection.node.dialect.open(message).properties.get("headers", {}).get(FILTER_HEADER)
            passes = self._takes_unfiltered if value is None else value in self._wanted
            (passed if passes else others).append(message)
        if others:
            self._connection.settling.settle(others)
        return passed
