"""A record that waits for its time, and how a bucket log holds it.

    key         the id: due time and a random part, so that an id says where to look
    timestamp   when it is due
    value       everything else

So a bucket is sorted out, and its records are handed on to finer buckets, without a look at the value.
"""

from __future__ import annotations

import msgspec

from mainstem.model.scheduling import DUE_MS_MAX
from mainstem.wire.record_batch import Record

ID_BYTES = 16
_DUE_BYTES = 8


class Target(msgspec.Struct, frozen=True, array_like=True):
    """Where a record goes when it is due."""

    namespace: str
    exchange: str | None = None
    """To be routed through it; None: straight to the topic."""
    routing_keys: tuple[str, ...] = ()
    topic: str = ""
    partition: int = -1
    """-1: any."""

    def describe(self) -> str:
        """For people."""
        if self.exchange is None:
            return f"topic {self.topic}"
        return f"exchange {self.exchange!r}, key {', '.join(self.routing_keys)!r}"


class Letter(msgspec.Struct, frozen=True, array_like=True):
    """What arrives there, and where that is."""

    target: Target
    created_ms: int
    headers: bytes
    """Encoded as they stand in a record."""
    value: bytes | None
    key: bytes | None = None
    ttl_ms: int = -1
    priority: int = 0
    timestamp_ms: int = -1
    """Of the record that a topic gets; -1: when it is published."""

    @property
    def size(self) -> int:
        """Bytes, about."""
        return 200 + len(self.headers) + len(self.value or b"") + len(self.key or b"")


encode_letter = msgspec.msgpack.Encoder().encode
decode_letter = msgspec.msgpack.Decoder(Letter).decode


def make_id(due_ms: int, random: bytes) -> bytes:
    """The id of a record that is due then."""
    return due_ms.to_bytes(_DUE_BYTES) + random[: ID_BYTES - _DUE_BYTES]


def due_of(record_id: bytes) -> int:
    """When the record of this id is due."""
    return int.from_bytes(record_id[:_DUE_BYTES])


def parse_id(text: str) -> bytes | None:
    """From text; None when it cannot be one."""
    try:
        record_id = bytes.fromhex(text)
    except ValueError:
        return None
    return record_id if len(record_id) == ID_BYTES and due_of(record_id) <= DUE_MS_MAX else None


def stored_record(record_id: bytes, letter: bytes, position: int) -> Record:
    """The record of a bucket log."""
    return Record(position, due_of(record_id), record_id, letter)
