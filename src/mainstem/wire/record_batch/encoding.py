"""Making a batch of records that did not arrive as one."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from mainstem.wire.checksum import crc32c
from mainstem.wire.compression import NONE, Content, compress
from mainstem.wire.record_batch.header import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_AT,
    CRC_FROM,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_EPOCH,
    NO_PRODUCER,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    Buffer,
)
from mainstem.wire.varint import encode_varint, encode_varlong, wrap_int64

Headers: TypeAlias = Sequence[tuple[str, Buffer | None]]
RecordLike: TypeAlias = tuple[int, int, Buffer | None, Buffer | None, Headers]
"""Offset, timestamp in ms, key, value, headers: a `Record`, or any tuple of that order."""


NO_ATTRIBUTES = b"\0"
NO_HEADERS = b"\0"
NULL_LENGTH = b"\1"


def varint_bytes(value: int) -> bytes:
    """The zigzag varint as bytes of its own."""
    out = bytearray()
    encode_varint(out, value)
    return bytes(out)


# joining a few known pieces takes half the time of appending byte by byte
SMALL_VARINT_COUNT = 4096
SMALL_VARINTS = tuple(varint_bytes(value) for value in range(SMALL_VARINT_COUNT))


def encode_batch(
    records: Iterable[RecordLike],
    *,
    base_offset: int = 0,
    compression: int = NONE,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = NO_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = 0,
    log_append_time_ms: int | None = None,
    last_offset_delta: int | None = None,
    base_timestamp: int | None = None,
    delete_horizon: bool = False,
) -> bytearray:
    """One batch, with its checksum.

    Offsets are absolute and rise from `base_offset` on; they may leave gaps. `last_offset_delta` is given where the
    batch stands for more offsets than it has records. With `log_append_time_ms` every record reads as of that time.
    `delete_horizon` says that `base_timestamp` is the horizon.
    """
    assert not delete_horizon or base_timestamp is not None, "the delete horizon is the base timestamp"
    body = bytearray()
    count, delta, max_timestamp = 0, -1, NO_TIMESTAMP
    for offset, timestamp, key, value, headers in records:
        if base_timestamp is None:
            base_timestamp = timestamp
        assert offset - base_offset > delta, "offsets must rise"
        delta = offset - base_offset
        append_record(body, timestamp - base_timestamp, delta, key, value, headers)
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        count += 1
    if last_offset_delta is None:
        last_offset_delta = delta
    assert last_offset_delta >= delta, "the batch ends before its last record"
    attributes = int(compression)
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = log_append_time_ms
    if transactional:
        attributes |= TRANSACTIONAL
    if control:
        attributes |= CONTROL
    if delete_horizon:
        attributes |= DELETE_HORIZON
    return assemble_batch(
        body,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=attributes,
        last_offset_delta=last_offset_delta,
        base_timestamp=NO_TIMESTAMP if base_timestamp is None else base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=count,
    )


def append_record(
    out: bytearray, timestamp_delta: int, offset_delta: int, key: Buffer | None, value: Buffer | None, headers: Headers
) -> None:
    """Appends one encoded record to `out`."""
    if key is None:
        key_size, key = NULL_LENGTH, b""
    else:
        size = len(key)
        key_size = SMALL_VARINTS[size] if size < SMALL_VARINT_COUNT else varint_bytes(size)
    if value is None:
        value_size, value = NULL_LENGTH, b""
    else:
        size = len(value)
        value_size = SMALL_VARINTS[size] if size < SMALL_VARINT_COUNT else varint_bytes(size)
    record = b"".join(
        (
            NO_ATTRIBUTES,
            SMALL_VARINTS[timestamp_delta] if 0 <= timestamp_delta < SMALL_VARINT_COUNT else _delta(timestamp_delta),
            SMALL_VARINTS[offset_delta] if offset_delta < SMALL_VARINT_COUNT else varint_bytes(offset_delta),
            key_size,
            key,
            value_size,
            value,
            encode_headers(headers) if headers else NO_HEADERS,
        )
    )
    size = len(record)
    out += SMALL_VARINTS[size] if size < SMALL_VARINT_COUNT else varint_bytes(size)
    out += record


def _delta(timestamp_delta: int) -> bytes:
    out = bytearray()
    encode_varlong(out, wrap_int64(timestamp_delta))
    return bytes(out)


def encode_headers(headers: Headers) -> bytes:
    """The headers of a record: their number, then each with its lengths."""
    out = bytearray(varint_bytes(len(headers)))
    for name, content in headers:
        text = name.encode()
        encode_varint(out, len(text))
        out += text
        if content is None:
            out += NULL_LENGTH
        else:
            encode_varint(out, len(content))
            out += content
    return bytes(out)


def assemble_batch(
    body: Buffer | Content,
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
    level: int | None = None,
) -> bytearray:
    """Header and checksum around encoded records, which are compressed here as the attributes say."""
    codec = attributes & COMPRESSION_MASK
    batch = bytearray(HEADER_BYTES)
    if record_count:
        batch += compress(codec, body, level) if codec else body
    head_batch(
        batch,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=attributes,
        last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=record_count,
    )
    return batch


def head_batch(
    batch: bytearray | memoryview,
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
) -> None:
    """Writes header and checksum into the room before records, which are there already, as the attributes say."""
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    seal_batch(batch)


def seal_batch(batch: bytearray | memoryview) -> None:
    """Writes the checksum of what the batch holds now."""
    with memoryview(batch) as view, view[CRC_FROM:] as covered:
        view[CRC_AT:CRC_FROM] = crc32c(covered).to_bytes(4, "big")
