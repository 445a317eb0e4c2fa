"""How messages were addressed, as the protocols know that published them: a registry by origin.

Dead letters, redrives and schedules send messages on. They must know where a message was published, which headers routes look
at, and how to write another address into it; each protocol keeps that in its own way. The origin of a message is the protocol
that published it. It shows in a header that only this protocol writes: its mark. A message without a mark is a record of a topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from mainstem.coordination.dead_letters.deaths import deaths_of
from mainstem.model.header_names import KEY_HEADER, TTL_HEADER
from mainstem.wire.messages.header_block import decode_headers
from mainstem.wire.messages.message import Message
from mainstem.wire.record_batch import encode_headers
from mainstem.wire.record_batch.encoding import varint_bytes

OWN_PREFIX = "mainstem-"
"""Headers of ours, which routes do not look at."""


class Address(NamedTuple):
    """Where a message was published: at an exchange, under keys. Without an exchange, the keys are names of queues."""

    exchange: str
    keys: tuple[str, ...]

    @property
    def key(self) -> str:
        """The first of them, which the publisher gave."""
        return self.keys[0]


class Envelopes(Protocol):
    """What a protocol knows of the messages that it has published."""

    def address_of(self, message: Message) -> Address:
        """Where it was published."""

    def headers_of(self, message: Message) -> Mapping[str, object]:
        """Headers as routes look at them."""

    def properties_of(self, message: Message) -> Mapping[str, object]:
        """What else routes look at: priority, message_id, correlation_id, timestamp, as far as they are set."""

    def readdressed(self, message: Message, exchange: str, key: str) -> bytes:
        """Its block of headers, addressed anew; without a time to live."""

    def is_lasting(self, message: Message) -> bool:
        """Whether all of this is the same for every message of its queue that has the same headers."""


class RecordEnvelopes:
    """Of records that no protocol of queues has published: each was sent to its queue by name."""

    def address_of(self, message: Message) -> Address:
        """The queue itself, or the one in which it died first."""
        deaths = deaths_of(message.headers)
        return Address("", (deaths[0].routing_keys[0] if deaths else str(message.lane.queue.name),))

    def headers_of(self, message: Message) -> Mapping[str, object]:
        """The record's and its key, as text where they are."""
        headers = {
            name: _text(content) for name, content in decode_headers(message.headers) if not name.startswith(OWN_PREFIX)
        }
        return headers if message.key is None else headers | {KEY_HEADER: _text(message.key)}

    def properties_of(self, message: Message) -> Mapping[str, object]:
        """A record has its time alone."""
        return {"timestamp": message.timestamp_ms // 1000} if message.timestamp_ms >= 0 else {}

    def readdressed(self, message: Message, exchange: str, key: str) -> bytes:
        """The record's, as they are."""
        return encode_headers([header for header in decode_headers(message.headers) if header[0] != TTL_HEADER])

    def is_lasting(self, message: Message) -> bool:
        """Where no key is among the headers."""
        return message.key is None


class EnvelopeRegistry:
    """All origins; itself Envelopes, of any message."""

    def __init__(self) -> None:
        self._records = RecordEnvelopes()
        self._by_origin: dict[str, Envelopes] = {}
        self._origin_of_mark: dict[str, str] = {}
        self._marks: list[tuple[bytes, str]] = []
        """How the names of marks stand in a block of headers, and whose they are."""
        self.mark_names: frozenset[str] = frozenset()
        """Headers that only their protocol can read."""

    def add(self, origin: str, marks: Sequence[str], envelopes: Envelopes) -> None:
        """A protocol says how it addresses. Again: the last one counts, for this origin alone."""
        self._marks = [entry for entry in self._marks if entry[1] != origin]
        self._marks += [(varint_bytes(len(mark.encode())) + mark.encode(), origin) for mark in marks]
        self.mark_names |= set(marks)
        self._origin_of_mark |= dict.fromkeys(marks, origin)
        self._by_origin[origin] = envelopes

    def origin_of(self, message: Message) -> str | None:
        """The protocol that published it; None: a record of a topic."""
        return next((origin for mark, origin in self._marks if mark in message.headers), None)

    def origin_by_names(self, names: Iterable[str]) -> str | None:
        """The protocol that has published a record with headers of these names; None: no protocol of queues."""
        return next((origin for name in names if (origin := self._origin_of_mark.get(name))), None)

    def of(self, message: Message) -> Envelopes:
        """Of the protocol that published it."""
        origin = self.origin_of(message)
        return self._records if origin is None else self._by_origin[origin]

    def address_of(self, message: Message) -> Address:
        """Where it was published."""
        return self.of(message).address_of(message)

    def headers_of(self, message: Message) -> Mapping[str, object]:
        """Headers as routes look at them."""
        return self.of(message).headers_of(message)

    def properties_of(self, message: Message) -> Mapping[str, object]:
        """What else routes look at."""
        return self.of(message).properties_of(message)

    def readdressed(self, message: Message, exchange: str, key: str) -> bytes:
        """Its block of headers, addressed anew."""
        return self.of(message).readdressed(message, exchange, key)

    def is_lasting(self, message: Message) -> bool:
        """Whether all of this is the same for every message of its queue that has the same headers."""
        return self.of(message).is_lasting(message)


def _text(content: bytes | None) -> object:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def priority_of(message: Message, envelopes: Envelopes) -> int:
    """What its publisher said; of a queue with priorities, the level that it had."""
    if message.lane.queue.properties.priority_max:
        return int(message.lane.number)
    priority = envelopes.properties_of(message).get("priority", 0)
    return priority if isinstance(priority, int) else 0
