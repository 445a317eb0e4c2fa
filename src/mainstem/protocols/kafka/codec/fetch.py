"""Fetch, by hand: versions 4 to 18. Stored batches are sent as they are, between the pieces written here."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from mainstem.protocols.kafka.codec.fields import INT32, count_at, skip_tags, text_at
from mainstem.wire.errors import BufferUnderflow
from mainstem.wire.varint import encode_unsigned_varint

Buffer: TypeAlias = bytes | bytearray | memoryview

LOG_START_FROM = 5
SESSIONS_FROM = 7
LEADER_EPOCH_FROM = 9
RACK_FROM = 11
FLEXIBLE_FROM = 12
TOPIC_IDS_FROM = 13
NO_REPLICA_FROM = 15

_WAIT_MIN_MAX_ISOLATION = struct.Struct(">iiib")
_SESSION = struct.Struct(">ii")
_PARTITION_4 = struct.Struct(">iqi")
_PARTITION_5 = struct.Struct(">iqqi")
_PARTITION_9 = struct.Struct(">iiqqi")
_PARTITION_12 = struct.Struct(">iiqiqi")
_UUID_BYTES = 16


class PartitionFetch(NamedTuple):
    """Where a reader wants to go on."""

    partition: int
    offset: int
    bytes_max: int
    leader_epoch: int


class FetchRequest(NamedTuple):
    """What a consumer asks for."""

    replica_id: int
    max_wait_ms: int
    bytes_min: int
    bytes_max: int
    committed_only: bool
    session_id: int
    session_epoch: int
    topics: list[tuple[str | bytes, list[PartitionFetch]]]
    forgotten: Sequence[tuple[str | bytes, list[int]]] = ()
    """What the session no longer reads."""


def decode_fetch(data: memoryview, position: int, version: int) -> FetchRequest:
    """The body of a request. Raises MalformedBytes kinds, and struct.error or IndexError where the bytes end early."""
    flexible = version >= FLEXIBLE_FROM
    replica_id = -1
    if version < NO_REPLICA_FROM:
        (replica_id,) = INT32.unpack_from(data, position)
        position += 4
    max_wait_ms, bytes_min, bytes_max, isolation = _WAIT_MIN_MAX_ISOLATION.unpack_from(data, position)
    position += 13
    session_id, session_epoch = 0, -1
    if version >= SESSIONS_FROM:
        session_id, session_epoch = _SESSION.unpack_from(data, position)
        position += 8
    topics, position = _decode_topics(data, position, version, flexible)
    forgotten: list[tuple[str | bytes, list[int]]] = []
    if version >= SESSIONS_FROM:
        forgotten = _decode_forgotten(data, position, version, flexible)
    return FetchRequest(
        replica_id, max_wait_ms, bytes_min, bytes_max, isolation == 1, session_id, session_epoch, topics, forgotten
    )


def _decode_name(data: memoryview, position: int, version: int, flexible: bool) -> tuple[str | bytes, int]:
    if version >= TOPIC_IDS_FROM:
        topic_id = bytes(data[position : position + _UUID_BYTES])
        if len(topic_id) != _UUID_BYTES:
            raise BufferUnderflow("the bytes end within a topic id")
        return topic_id, position + _UUID_BYTES
    text, position = text_at(data, position, flexible)
    return text or "", position


def _decode_forgotten(
    data: memoryview, position: int, version: int, flexible: bool
) -> list[tuple[str | bytes, list[int]]]:
    forgotten: list[tuple[str | bytes, list[int]]] = []
    topic_count, position = count_at(data, position, flexible, 6)
    for _ in range(topic_count):
        name, position = _decode_name(data, position, version, flexible)
        count, position = count_at(data, position, flexible, 4)
        forgotten.append((name, list(struct.unpack_from(f">{count}i", data, position))))
        position += 4 * count
        if flexible:
            position = skip_tags(data, position)
    return forgotten


def _decode_topics(
    data: memoryview, position: int, version: int, flexible: bool
) -> tuple[list[tuple[str | bytes, list[PartitionFetch]]], int]:
    topics: list[tuple[str | bytes, list[PartitionFetch]]] = []
    topic_count, position = count_at(data, position, flexible, 6)
    for _ in range(topic_count):
        name, position = _decode_name(data, position, version, flexible)
        count, position = count_at(data, position, flexible, 16)
        partitions: list[PartitionFetch] = []
        for _ in range(count):
            epoch = -1
            if flexible:
                index, epoch, offset, _, _, bytes_max = _PARTITION_12.unpack_from(data, position)
                position = skip_tags(data, position + 32)
            elif version >= LEADER_EPOCH_FROM:
                index, epoch, offset, _, bytes_max = _PARTITION_9.unpack_from(data, position)
                position += 28
            elif version >= LOG_START_FROM:
                index, offset, _, bytes_max = _PARTITION_5.unpack_from(data, position)
                position += 24
            else:
                index, offset, bytes_max = _PARTITION_4.unpack_from(data, position)
                position += 16
            partitions.append(PartitionFetch(index, offset, bytes_max, epoch))
        if flexible:
            position = skip_tags(data, position)
        topics.append((name, partitions))
    return topics, position


class PartitionAnswer(NamedTuple):
    """What a reader is given of one partition."""

    partition: int
    error: int
    end: int = -1
    stable: int = -1
    start: int = -1
    batches: Sequence[Buffer] = ()
    batch_bytes: int = 0
    aborted: Sequence[tuple[int, int]] | None = None
    """(producer id, first offset) of what is not to be delivered; None for readers of everything."""


_SIZE_CORRELATION = struct.Struct(">ii")
_ANSWER = struct.Struct(">ihqq")
_ANSWER_START = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")
_NO_REPLICA = INT32.pack(-1)


def encode_fetch(
    version: int,
    correlation_id: int,
    topics: list[tuple[str | bytes, list[PartitionAnswer]]],
    error: int = 0,
    session_id: int = 0,
    throttle_ms: int = 0,
) -> list[Buffer]:
    """The response in pieces, with its size in front."""
    flexible = version >= FLEXIBLE_FROM
    out = bytearray(8)
    pieces: list[Buffer] = []
    total = 0
    if flexible:
        out.append(0)
    out += INT32.pack(throttle_ms)
    if version >= SESSIONS_FROM:
        out += struct.pack(">hi", error, session_id)
    _encode_count(out, len(topics), flexible)
    first = out
    for name, answers in topics:
        if isinstance(name, str):
            text = name.encode()
            if flexible:
                encode_unsigned_varint(out, len(text) + 1)
            else:
                out += len(text).to_bytes(2, "big")
            out += text
        else:
            out += name
        _encode_count(out, len(answers), flexible)
        for answer in answers:
            _encode_answer(out, answer, version, flexible)
            if answer.batch_bytes:
                pieces.append(out)
                pieces += answer.batches
                total += len(out) + answer.batch_bytes
                out = bytearray()
            if flexible:
                out.append(0)
        if flexible:
            out.append(0)
    if flexible:
        out.append(0)
    if out:
        pieces.append(out)
        total += len(out)
    _SIZE_CORRELATION.pack_into(first, 0, total - 4, correlation_id)
    return pieces


def _encode_answer(out: bytearray, answer: PartitionAnswer, version: int, flexible: bool) -> None:
    if version >= LOG_START_FROM:
        out += _ANSWER_START.pack(answer.partition, answer.error, answer.end, answer.stable, answer.start)
    else:
        out += _ANSWER.pack(answer.partition, answer.error, answer.end, answer.stable)
    if answer.aborted is None:
        _encode_count(out, -1, flexible)
    else:
        _encode_count(out, len(answer.aborted), flexible)
        for producer, first in answer.aborted:
            out += _ABORTED.pack(producer, first)
            if flexible:
                out.append(0)
    if version >= RACK_FROM:
        out += _NO_REPLICA
    if flexible:
        encode_unsigned_varint(out, answer.batch_bytes + 1)
    else:
        out += INT32.pack(answer.batch_bytes)


def _encode_count(out: bytearray, count: int, flexible: bool) -> None:
    if flexible:
        encode_unsigned_varint(out, count + 1)
    else:
        out += INT32.pack(count)
