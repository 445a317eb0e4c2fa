"""Messages of the gRPC protocol and records."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from typing import Any

from mainstem.broker.records.publication import NewRecord
from mainstem.model.errors import InvalidBatch
from mainstem.protocols.rocketmq.codec.grpc import schema
from mainstem.protocols.rocketmq.codec.grpc.codes import CRC32, GZIP, IDENTITY, MD5, SHA1, Code, MessageType
from mainstem.protocols.rocketmq.mapping.messages import (
    KEYS,
    NOT_STORED,
    SHARDING_KEY,
    TAGS,
    UNIQUE_KEY,
    content_of,
    new_record,
    shown,
)
from mainstem.protocols.rocketmq.mapping.names import physical_offset
from mainstem.wire.compression import GZIP as GZIP_CODEC
from mainstem.wire.compression import decompress
from mainstem.wire.errors import DecompressedTooLarge
from mainstem.wire.record_batch import Record

BORN_HOST, TRACE_CONTEXT = "__BORNHOST", "TRACE_CONTEXT"
GROUP_CHARACTERS_MAX = 64
PROPERTIES_MAX, PROPERTIES_BYTES_MAX = 128, 16 << 10
OF_SYSTEM = frozenset({TAGS, KEYS, UNIQUE_KEY, SHARDING_KEY, BORN_HOST, TRACE_CONTEXT})
"""Properties that have fields of their own."""
DIGESTS = {
    CRC32: lambda body: f"{zlib.crc32(body):08X}",
    MD5: lambda body: hashlib.md5(body, usedforsecurity=False).hexdigest().upper(),
    SHA1: lambda body: hashlib.sha1(body, usedforsecurity=False).hexdigest().upper(),
}


class CallRefused(Exception):
    """A call, or a message of one, that is answered with a code and a text."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code


def record_of(message: Any, bytes_max: int, now_ms: int) -> NewRecord:
    """What a producer sent, to be published. Raises CallRefused."""
    system = message.system_properties
    properties = {one.key: one.value for one in message.user_properties}
    _check_properties(properties)
    if not system.message_id:
        raise CallRefused(Code.ILLEGAL_MESSAGE_ID, "a message has an id")
    properties[UNIQUE_KEY] = system.message_id
    if system.tag:
        if "|" in system.tag or not system.tag.strip():
            raise CallRefused(Code.ILLEGAL_MESSAGE_TAG, f"a tag is not blank and has no |: {system.tag[:100]!r}")
        properties[TAGS] = system.tag
    if system.keys:
        if not all(key.strip() for key in system.keys):
            raise CallRefused(Code.ILLEGAL_MESSAGE_KEY, "a key is not blank")
        properties[KEYS] = " ".join(system.keys)
    if system.message_group:
        if len(system.message_group) > GROUP_CHARACTERS_MAX:
            raise CallRefused(
                Code.ILLEGAL_MESSAGE_GROUP, f"a message group has at most {GROUP_CHARACTERS_MAX} characters"
            )
        properties[SHARDING_KEY] = system.message_group
    if system.born_host:
        properties[BORN_HOST] = system.born_host
    if system.trace_context:
        properties[TRACE_CONTEXT] = system.trace_context
    due_ms = _due_ms(system, now_ms)
    content = content_of(_body(message, bytes_max), properties)
    born_ms = milliseconds(system.born_timestamp) if system.HasField("born_timestamp") else -1
    return new_record(content, system.queue_id, born_ms, due_ms)


def _check_properties(properties: Mapping[str, str]) -> None:
    if len(properties) > PROPERTIES_MAX:
        raise CallRefused(Code.MESSAGE_PROPERTIES_TOO_LARGE, f"a message has at most {PROPERTIES_MAX} properties")
    if sum(len(name) + len(value) for name, value in properties.items()) > PROPERTIES_BYTES_MAX:
        raise CallRefused(Code.MESSAGE_PROPERTIES_TOO_LARGE, f"properties have at most {PROPERTIES_BYTES_MAX} bytes")
    for name in properties:
        if name in NOT_STORED or name in OF_SYSTEM:
            raise CallRefused(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"{name} is no name of a user's property")


def _due_ms(system: Any, now_ms: int) -> int | None:
    """When the message is due. Raises CallRefused where its type says otherwise."""
    kind = system.message_type
    is_timed = system.HasField("delivery_timestamp")
    if kind in (MessageType.LITE, MessageType.PRIORITY):
        raise CallRefused(Code.NOT_IMPLEMENTED, f"messages of type {MessageType(kind).name} are not supported")
    if (kind == MessageType.DELAY) != is_timed and kind != MessageType.UNSPECIFIED:
        raise CallRefused(
            Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, "a DELAY message, and no other, has a delivery time"
        )
    if (kind == MessageType.FIFO) != bool(system.message_group) and kind != MessageType.UNSPECIFIED:
        raise CallRefused(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, "a FIFO message, and no other, has a message group")
    if not is_timed:
        return None
    due_ms = milliseconds(system.delivery_timestamp)
    return due_ms if due_ms > now_ms else None


def _body(message: Any, bytes_max: int) -> bytes:
    body: bytes = message.body
    system = message.system_properties
    digest = system.body_digest
    if digest.type in DIGESTS and digest.checksum.upper().zfill(8) != DIGESTS[digest.type](body).zfill(8):
        raise CallRefused(Code.MESSAGE_CORRUPTED, "the body is not what its checksum says")
    if system.body_encoding == GZIP:
        try:
            body = decompress(GZIP_CODEC, body, bytes_max)
        except DecompressedTooLarge:
            body = bytes(bytes_max + 1)
        except InvalidBatch:
            raise CallRefused(Code.MESSAGE_CORRUPTED, "the body cannot be decompressed") from None
    if len(body) > bytes_max:
        raise CallRefused(Code.MESSAGE_BODY_TOO_LARGE, f"the body has more than {bytes_max} bytes")
    return body


def message_of(topic: Any, queue: int, log: int, record: Record) -> Any:
    """A record as consumers are given it; what differs by delivery is set by who gives it."""
    properties = shown(record).properties
    body = record.value or b""
    group = properties.get(SHARDING_KEY)
    message = schema.new("MessageContent", topic=topic, body=body)
    for name, value in properties.items():
        if name not in OF_SYSTEM:
            message.user_properties.add(key=name, value=value)
    system = message.system_properties
    if TAGS in properties:
        system.tag = properties[TAGS]
    system.keys.extend(properties.get(KEYS, "").split())
    system.message_id = properties.get(UNIQUE_KEY) or derived_id(log, record.offset)
    system.body_digest.type = CRC32
    system.body_digest.checksum = DIGESTS[CRC32](body)
    system.body_encoding = IDENTITY
    system.message_type = MessageType.FIFO if group else MessageType.NORMAL
    set_time(system.born_timestamp, max(record.timestamp_ms, 0))
    set_time(system.store_timestamp, max(record.timestamp_ms, 0))
    system.born_host = properties.get(BORN_HOST, "")
    system.queue_id = queue
    system.queue_offset = record.offset
    if group:
        system.message_group = group
    if TRACE_CONTEXT in properties:
        system.trace_context = properties[TRACE_CONTEXT]
    return message


def derived_id(log: int, offset: int) -> str:
    """Of a record that no RocketMQ client sent: as long as theirs, and always the same."""
    return f"01{physical_offset(log, offset):032X}"


def milliseconds(time: Any) -> int:
    """Of a Timestamp or a Duration."""
    return int(time.seconds) * 1_000 + int(time.nanos) // 1_000_000


def set_time(time: Any, value_ms: int) -> None:
    """The same back."""
    time.seconds, time.nanos = value_ms // 1_000, value_ms % 1_000 * 1_000_000
