"""The few changes that a stored or arriving batch may undergo.

Placing writes what the checksum leaves out. Everything else here ends in a new checksum, and is all that ever does so:
log-append time, another compression, key compaction, and joining a transaction when a stage is published.
"""

import struct
from collections.abc import Callable, Container

from mainstem.wire.checksum import crc32c, joined_crc32c
from mainstem.wire.compression import DECOMPRESSED_BYTES_MAX, Content
from mainstem.wire.errors import BatchTruncated, MalformedBytes, MalformedRecords
from mainstem.wire.record_batch.encoding import assemble_batch, seal_batch
from mainstem.wire.record_batch.header import (
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    COMPRESSION_MASK,
    CRC_AT,
    CRC_FROM,
    DELETE_HORIZON,
    HEADER_BYTES,
    LEADER_EPOCH_AT,
    LOG_APPEND_TIME,
    MAX_TIMESTAMP_AT,
    NO_TIMESTAMP,
    PRODUCER_ID_AT,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
)
from mainstem.wire.record_batch.record import open_batch
from mainstem.wire.varint import decode_varint, decode_varlong, encode_varint, encode_varlong, wrap_int64

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_PRODUCER = struct.Struct(">qhi")


def place_batch(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Writes base offset and leader epoch into the batch at `position`; the checksum stays true."""
    _INT64.pack_into(buffer, position + BASE_OFFSET_AT, base_offset)
    _INT32.pack_into(buffer, position + LEADER_EPOCH_AT, leader_epoch)


def recompress_batch(
    batch: Buffer, codec: int, level: int | None = None, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> bytearray:
    """The one batch in the buffer with its records compressed by another codec; the records themselves are not looked at."""
    return recompress_opened(*open_batch(batch, decompressed_bytes_max), codec, level)


def recompress_opened(header: BatchHeader, body: Content, codec: int, level: int | None = None) -> bytearray:
    """The same of a batch that was opened."""
    return assemble_batch(
        body,
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        attributes=header.attributes & ~COMPRESSION_MASK | codec,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        record_count=header.record_count,
        level=level,
    )


def stamp_log_append_time(batch: bytearray | memoryview, timestamp_ms: int) -> None:
    """Makes every record of the one batch in the buffer read as of `timestamp_ms`."""
    if len(batch) < HEADER_BYTES:
        raise BatchTruncated(f"{len(batch)} bytes are too few for a batch header")
    attributes: int = _INT16.unpack_from(batch, ATTRIBUTES_AT)[0]
    _INT16.pack_into(batch, ATTRIBUTES_AT, attributes | LOG_APPEND_TIME)
    _INT64.pack_into(batch, MAX_TIMESTAMP_AT, timestamp_ms)
    seal_batch(batch)


def join_transaction(batch: bytearray | memoryview, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """Makes the one batch in the buffer a part of this producer's transaction.

    The new checksum follows from the old one and the header: the records are not summed, and if they were wrong, they still are.
    """
    with memoryview(batch) as view, view[CRC_FROM:HEADER_BYTES] as covered:
        records_bytes = len(view) - HEADER_BYTES
        crc = int.from_bytes(view[CRC_AT:CRC_FROM], "big")
        records_crc = joined_crc32c(crc32c(covered), crc, records_bytes)
        attributes: int = _INT16.unpack_from(view, ATTRIBUTES_AT)[0]
        _INT16.pack_into(view, ATTRIBUTES_AT, attributes | TRANSACTIONAL)
        _PRODUCER.pack_into(view, PRODUCER_ID_AT, producer_id, producer_epoch, base_sequence)
        view[CRC_AT:CRC_FROM] = joined_crc32c(crc32c(covered), records_crc, records_bytes).to_bytes(4, "big")


def rewrite_batch(
    batch: Buffer,
    keep: Callable[[int], bool] | Container[int],
    delete_horizon_ms: int | None = None,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> bytearray | None:
    """The batch with only the records whose offset is kept, or None if that is none.

    Offsets, the offset range, compression, producer fields and leader epoch stay. Kept records are copied as bytes;
    only with a delete horizon, which takes the place of the base timestamp, are their timestamp deltas new.
    """
    is_kept: Callable[[int], bool] = keep if callable(keep) else keep.__contains__
    header, body = open_batch(batch, decompressed_bytes_max)
    try:
        kept, count, max_timestamp = _kept_records(
            body, header.record_count, header.base_offset, header.base_timestamp, is_kept, delete_horizon_ms
        )
    except IndexError:
        raise MalformedRecords("the batch ends inside a record") from None
    except MalformedBytes as fact:
        raise MalformedRecords(str(fact)) from None
    if not count:
        return None
    appended = header.attributes & LOG_APPEND_TIME
    return assemble_batch(
        kept,
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        attributes=header.attributes | (0 if delete_horizon_ms is None else DELETE_HORIZON),
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp if delete_horizon_ms is None else delete_horizon_ms,
        max_timestamp=header.max_timestamp if appended else max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        record_count=count,
    )


def _kept_records(
    body: Content,
    record_count: int,
    base_offset: int,
    base_timestamp: int,
    is_kept: Callable[[int], bool],
    delete_horizon_ms: int | None,
) -> tuple[bytearray, int, int]:
    kept, count, max_timestamp = bytearray(), 0, NO_TIMESTAMP
    position, previous, body_end = 0, -1, len(body)
    for _ in range(record_count):
        start = position
        length, position = decode_varint(body, position)
        if not 0 < length <= body_end - position:
            raise MalformedRecords(f"a record of {length} bytes, where {body_end - position} remain")
        end = position + length
        timestamp_at = position + 1
        timestamp_delta, rest_at = decode_varlong(body, timestamp_at)
        offset_delta, after = decode_varint(body, rest_at)
        timestamp = wrap_int64(base_timestamp + timestamp_delta)
        if after > end or offset_delta <= previous:
            raise MalformedRecords(f"offset delta {offset_delta} after {previous}")
        previous = offset_delta
        position = end
        if not is_kept(base_offset + offset_delta):
            continue
        count += 1
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        if delete_horizon_ms is None:
            kept += body[start:end]
            continue
        delta = bytearray()
        encode_varlong(delta, wrap_int64(timestamp - delete_horizon_ms))
        encode_varint(kept, 1 + len(delta) + end - rest_at)
        kept += body[timestamp_at - 1 : timestamp_at]
        kept += delta
        kept += body[rest_at:end]
    if position != body_end:
        raise MalformedRecords(f"the records end at {position} of {body_end} bytes")
    return kept, count, max_timestamp
