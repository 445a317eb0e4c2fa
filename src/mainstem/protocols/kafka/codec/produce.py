"""Produce, by hand: versions 3 to 13. Batches stay where they were received."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from mainstem.protocols.kafka.codec.fields import INT32, bytes_at, count_at, skip_tags, text_at
from mainstem.wire.errors import BufferUnderflow
from mainstem.wire.varint import encode_unsigned_varint

FLEXIBLE_FROM = 9
TOPIC_IDS_FROM = 13
LOG_START_FROM = 5
RECORD_ERRORS_FROM = 8

_ACKS_TIMEOUT = struct.Struct(">hi")
_INDEX_LENGTH = struct.Struct(">ii")
_UUID_BYTES = 16

PartitionRecords: TypeAlias = "tuple[int, memoryview | None]"
TopicRecords: TypeAlias = "tuple[str | bytes, list[PartitionRecords]]"
"""A topic by its name, or from version 13 on by the bytes of its id, with records by partition."""


class ProduceRequest(NamedTuple):
    """What a producer sends."""

    transactional_id: str | None
    acks: int
    topics: list[TopicRecords]


def decode_produce(data: memoryview, position: int, version: int) -> ProduceRequest:
    """The body of a request. Raises MalformedBytes kinds, and struct.error or IndexError where the bytes end early."""
    flexible = version >= FLEXIBLE_FROM
    transactional_id, position = text_at(data, position, flexible)
    acks, _ = _ACKS_TIMEOUT.unpack_from(data, position)
    topic_count, position = count_at(data, position + 6, flexible, 6)
    topics: list[TopicRecords] = []
    for _ in range(topic_count):
        name: str | bytes
        if version >= TOPIC_IDS_FROM:
            name = bytes(data[position : position + _UUID_BYTES])
            position += _UUID_BYTES
        else:
            text, position = text_at(data, position, flexible)
            name = text or ""
        partition_count, position = count_at(data, position, flexible, 5)
        if flexible:
            partitions, position = _partitions_flexible(data, position, partition_count)
        else:
            partitions, position = _partitions_classic(data, position, partition_count)
        topics.append((name, partitions))
    return ProduceRequest(transactional_id, acks, topics)


def _partitions_classic(data: memoryview, position: int, count: int) -> tuple[list[PartitionRecords], int]:
    partitions: list[PartitionRecords] = []
    for _ in range(count):
        index, length = _INDEX_LENGTH.unpack_from(data, position)
        position += 8
        if length < 0:
            partitions.append((index, None))
            continue
        records = data[position : position + length]
        if len(records) != length:
            raise BufferUnderflow(f"{length} bytes are announced, {len(records)} are left")
        partitions.append((index, records))
        position += length
    return partitions, position


def _partitions_flexible(data: memoryview, position: int, count: int) -> tuple[list[PartitionRecords], int]:
    partitions: list[PartitionRecords] = []
    for _ in range(count):
        (index,) = INT32.unpack_from(data, position)
        records, position = bytes_at(data, position + 4, flexible=True)
        position = skip_tags(data, position)
        partitions.append((index, records))
    return partitions, skip_tags(data, position)


class PartitionOutcome(NamedTuple):
    """What became of the records of one partition."""

    partition: int
    error: int
    base: int = -1
    append_time_ms: int = -1
    message: str | None = None
    refused: Sequence[int] = ()
    """The records that are to blame, counted from the first of the batch."""


Outcome: TypeAlias = "PartitionOutcome | tuple[int, int, int, int, str | None, Sequence[int]]"
"""A plain tuple of the same does where there is one for every batch: it is made several times faster."""

_SIZE_CORRELATION = struct.Struct(">ii")
_OUTCOME = struct.Struct(">ihqq")
_OUTCOME_START = struct.Struct(">ihqqq")
_NO_ERRORS_CLASSIC = INT32.pack(0)
_NULL_TEXT = b"\xff\xff"
_NO_TAGS = b"\x00"
_NOTHING_WRONG = b"\x01\x00\x00"
"""No errors of single records, no text, no tags."""
_NO_THROTTLE = INT32.pack(0)


def encode_produce(
    version: int,
    correlation_id: int,
    topics: list[tuple[str | bytes, list[Outcome]]],
    throttle_ms: int = 0,
) -> bytearray:
    """The response, with its size in front."""
    out = bytearray(8)
    if version >= FLEXIBLE_FROM:
        _encode_flexible(out, topics)
        out += INT32.pack(throttle_ms) if throttle_ms else _NO_THROTTLE
        out.append(0)
    else:
        _encode_classic(out, version, topics)
        out += INT32.pack(throttle_ms) if throttle_ms else _NO_THROTTLE
    _SIZE_CORRELATION.pack_into(out, 0, len(out) - 4, correlation_id)
    return out


def _encode_classic(out: bytearray, version: int, topics: list[tuple[str | bytes, list[Outcome]]]) -> None:
    out += INT32.pack(len(topics))
    for name, outcomes in topics:
        topic = name.encode() if isinstance(name, str) else name
        out += len(topic).to_bytes(2, "big")
        out += topic
        out += INT32.pack(len(outcomes))
        for index, error, base, append_time_ms, message, refused in outcomes:
            if version < LOG_START_FROM:
                out += _OUTCOME.pack(index, error, base, append_time_ms)
                continue
            out += _OUTCOME_START.pack(index, error, base, append_time_ms, -1)
            if version >= RECORD_ERRORS_FROM:
                text = _NULL_TEXT if message is None else _classic_text(message)
                if refused:
                    _encode_refused(out, INT32.pack(len(refused)), refused, text)
                else:
                    out += _NO_ERRORS_CLASSIC
                out += text


def _encode_flexible(out: bytearray, topics: list[tuple[str | bytes, list[Outcome]]]) -> None:
    out.append(0)  # tags of the header
    encode_unsigned_varint(out, len(topics) + 1)
    for name, outcomes in topics:
        if isinstance(name, str):
            topic = name.encode()
            encode_unsigned_varint(out, len(topic) + 1)
            out += topic
        else:
            out += name
        encode_unsigned_varint(out, len(outcomes) + 1)
        for index, error, base, append_time_ms, message, refused in outcomes:
            out += _OUTCOME_START.pack(index, error, base, append_time_ms, -1)
            if message is None:
                out += _NOTHING_WRONG
                continue
            text = _flexible_text(message)
            if refused:
                count = bytearray()
                encode_unsigned_varint(count, len(refused) + 1)
                _encode_refused(out, count, refused, text + _NO_TAGS)
            else:
                out.append(1)
            out += text
            out += _NO_TAGS
        out.append(0)


def _encode_refused(out: bytearray, count: bytes | bytearray, refused: Sequence[int], text: bytes | bytearray) -> None:
    """Each record with the same text: what is wrong with them is the same."""
    out += count
    for place in refused:
        out += INT32.pack(place)
        out += text


def _classic_text(message: str) -> bytes:
    content = message.encode()
    return len(content).to_bytes(2, "big") + content


def _flexible_text(message: str) -> bytes:
    content = message.encode()
    out = bytearray()
    encode_unsigned_varint(out, len(content) + 1)
    return bytes(out) + content
