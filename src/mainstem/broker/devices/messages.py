"""A message of a device on its way to subscribers, and what a record's headers say of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from mainstem.model.header_names import TTL_HEADER
from mainstem.storage.contract import Mutation
from mainstem.wire.messages.header_block import decode_headers

TOPIC, QOS, RETAIN, REPLAYED, CLIENT = "mqtt.topic", "mqtt.qos", "mqtt.retain", "mqtt.replayed", "mqtt.client"
"""Headers that the broker itself reads."""
PREFIX = "mqtt."
QOS_OF_RECORDS = 1
"""Of records that do not say: they are durable, so no subscriber needs to lose them."""
FACTS_MAX = 4_096
FACTS_BYTES_MAX = 1_024


class Facts(NamedTuple):
    """What the headers of a record say."""

    topic: str | None
    qos: int
    retain: bool
    is_replayed: bool
    """Whether it is a retained message for a new subscription."""
    ttl_ms: int
    headers: Sequence[tuple[str, bytes | None]]
    """All of them."""


class FactBook:
    """Facts by block of headers: those of one device are mostly the same."""

    def __init__(self) -> None:
        self._known: dict[bytes, Facts] = {}

    def of(self, block: bytes) -> Facts:
        """What this block says."""
        known = self._known.get(block)
        if known is None:
            known = read_facts(block)
            if len(block) <= FACTS_BYTES_MAX:
                if len(self._known) >= FACTS_MAX:
                    self._known.clear()
                self._known[block] = known
        return known


def read_facts(block: bytes) -> Facts:
    """Of one block."""
    headers = decode_headers(block)
    topic: str | None = None
    qos, retain, is_replayed, ttl_ms = QOS_OF_RECORDS, False, False, -1
    for name, content in headers:
        if content is None:
            continue
        if name == TOPIC:
            try:
                topic = content.decode()
            except UnicodeDecodeError:
                topic = None
        elif name == QOS and content in (b"0", b"1", b"2"):
            qos = int(content)
        elif name == RETAIN:
            retain = content == b"1"
        elif name == REPLAYED:
            is_replayed = True
        elif name == TTL_HEADER and content.isdigit() and len(content) < 19:
            ttl_ms = int(content)
    return Facts(topic, qos, retain, is_replayed, ttl_ms, headers)


class DeviceMessage:
    """One message, given to any number of subscribers."""

    __slots__ = ("cached", "expires_ms", "headers", "payload", "publisher", "qos", "retain", "topic")

    def __init__(
        self,
        topic: str,
        payload: bytes | memoryview,
        qos: int,
        retain: bool,
        headers: bytes,
        expires_ms: int = 0,
        publisher: object | None = None,
    ) -> None:
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
        """What its publisher said."""
        self.headers = headers
        """As a block, as in a record."""
        self.expires_ms = expires_ms
        """0: never."""
        self.publisher = publisher
        """The session that published it, for those that want none of their own."""
        self.cached: dict[Any, Any] | None = None
        """What receivers make of it once, for all of them."""


class Publication(NamedTuple):
    """What a client publishes."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    headers: bytes
    """The block of record headers."""
    expiry_s: int = -1
    """-1: never."""
    publisher: object | None = None
    state: Sequence[Mutation] = ()
    """To be committed with it."""
