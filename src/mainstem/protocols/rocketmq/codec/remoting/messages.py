"""Messages as consumers are given them, and batches of messages as producers send them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import NamedTuple

from mainstem.protocols.rocketmq.codec.remoting.properties import decode_properties, encode_properties
from mainstem.protocols.rocketmq.errors import MalformedFrame

MAGIC, MAGIC_LONG_TOPIC = 0xDAA320A7, 0xDAA320AB
SHORT_TOPIC_BYTES_MAX = 127
CRC_MASK = 0x7FFFFFFF
_HEAD = struct.Struct(">iIIiiqqiq8sq8siqi")
_INNER = struct.Struct(">iIIii")
BATCH_MESSAGES_MAX = 10_000

NO_HOST = bytes(8)


class StoredMessage(NamedTuple):
    """A message with its place."""

    topic: str
    queue: int
    offset: int
    physical_offset: int
    body: bytes
    properties: Mapping[str, str]
    born_ms: int
    store_ms: int
    born_host: bytes = NO_HOST
    """Four bytes of the address, four of the port."""
    store_host: bytes = NO_HOST
    reconsume_times: int = 0
    flag: int = 0
    sys_flag: int = 0


def encode_message(message: StoredMessage) -> bytes:
    """As the body of a pull answer holds it."""
    topic, body = message.topic.encode(), message.body
    properties = encode_properties(message.properties)
    is_long = len(topic) > SHORT_TOPIC_BYTES_MAX
    topic_size = len(topic).to_bytes(2 if is_long else 1)
    size = _HEAD.size + len(body) + len(topic_size) + len(topic) + 2 + len(properties)
    head = _HEAD.pack(
        size,
        MAGIC_LONG_TOPIC if is_long else MAGIC,
        zlib.crc32(body) & CRC_MASK,
        message.queue,
        message.flag,
        message.offset,
        message.physical_offset,
        message.sys_flag,
        message.born_ms,
        message.born_host,
        message.store_ms,
        message.store_host,
        message.reconsume_times,
        0,
        len(body),
    )
    return b"".join((head, body, topic_size, topic, len(properties).to_bytes(2), properties))


class SentMessage(NamedTuple):
    """A message of a batch."""

    body: bytes
    properties: dict[str, str]
    flag: int = 0


def decode_batch(data: bytes) -> list[SentMessage]:
    """The messages of a batch. Raises MalformedFrame."""
    found: list[SentMessage] = []
    position = 0
    while position < len(data):
        if len(found) == BATCH_MESSAGES_MAX:
            raise MalformedFrame(f"a batch of more than {BATCH_MESSAGES_MAX} messages")
        try:
            size, _, _, flag, length = _INNER.unpack_from(data, position)
            if not _INNER.size + 2 <= size <= len(data) - position:
                raise MalformedFrame(f"a message of {size} bytes in a batch of {len(data)}")
            start, end = position + _INNER.size, position + size
            if not 0 <= length <= end - start - 2:
                raise MalformedFrame(f"a body of {length} bytes in a message of {size}")
            properties_at = start + length + 2
            written = int.from_bytes(data[properties_at - 2 : properties_at])
            if properties_at + written > end:
                raise MalformedFrame(f"properties of {written} bytes in a message of {size}")
            properties = decode_properties(data[properties_at : properties_at + written].decode())
        except (struct.error, UnicodeDecodeError) as error:
            raise MalformedFrame(f"a batch cannot be read: {error}") from None
        found.append(SentMessage(data[start : start + length], properties, flag))
        position = end
    return found
