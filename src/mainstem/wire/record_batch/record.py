"""The records inside a batch.

One record, as bytes (varints are zigzag):

    length varint | attributes i8 | timestamp delta varlong | offset delta varint
    | key length varint, key | value length varint, value | header count varint
    | per header: key length varint, key, value length varint, value

Length -1 is null, and offset deltas rise within a batch.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from mainstem.wire.compression import DECOMPRESSED_BYTES_MAX, Content, unpack
from mainstem.wire.errors import BatchTruncated, InvalidRecordCount, MalformedBytes, MalformedRecords, UnsupportedMagic
from mainstem.wire.record_batch.header import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    Buffer,
    read_header,
)
from mainstem.wire.record_batch.inspection import RECORD_BYTES_MIN
from mainstem.wire.varint import INT64_MAX, INT64_MIN, VARLONG_BITS, continue_varint, decode_varint, wrap_int64


class Record(NamedTuple):
    """One record at its absolute offset. A value of None is a tombstone."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


KeyFact: TypeAlias = tuple[int, int, bytes | None, bool]
"""Offset, timestamp in ms, key, and whether the value is null (a tombstone)."""

NULL_LENGTH = 1
"""Length -1 before zigzag is undone."""

NO_HEADERS: tuple[tuple[str, bytes | None], ...] = ()

_new_tuple = tuple.__new__


def open_batch(batch: Buffer, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> tuple[BatchHeader, Content]:
    """The header and the decompressed records of one batch. The checksum is not looked at: that is `check_batch`."""
    header = read_header(batch)
    size = header.batch_length + LOG_OVERHEAD
    if header.magic != MAGIC:
        raise UnsupportedMagic(f"magic {header.magic}: only v2 batches are accepted")
    if size < HEADER_BYTES or size > len(batch):
        raise BatchTruncated(f"a batch of {size} bytes, of which {len(batch)} are here")
    count = header.record_count
    if not 0 <= count <= header.last_offset_delta + 1:
        raise InvalidRecordCount(f"{count} records over {header.last_offset_delta + 1} offsets")
    if not count:
        # compaction may leave an empty batch, whose codec bits stay but whose content is no frame
        return header, b""
    with memoryview(batch) as view:
        body = unpack(header.attributes & COMPRESSION_MASK, view[HEADER_BYTES:size], decompressed_bytes_max)
    if count * RECORD_BYTES_MIN > len(body):
        raise InvalidRecordCount(f"{count} records cannot fit in {len(body)} bytes")
    return header, body


def decode_records(batch: Buffer, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX, first: int = 0) -> list[Record]:
    """Every record with its absolute offset and timestamp; raises `InvalidBatch` if one cannot be read.

    Records below the offset `first` are left out where the batch has no gaps, and of those only the lengths are read.
    """
    header, body = open_batch(batch, decompressed_bytes_max)
    skipped = first - header.base_offset
    try:
        if not 0 < skipped < header.record_count or header.record_count <= header.last_offset_delta:
            return _decode_records(header, body)
        return _decode_records(header, body, _skip(body, skipped), skipped)
    except IndexError:
        raise MalformedRecords("the batch ends inside a record") from None
    except MalformedBytes as fact:
        raise MalformedRecords(str(fact)) from None


def records_of(header: BatchHeader, body: Content) -> list[Record]:
    """Every record of a batch that was opened."""
    try:
        return _decode_records(header, body)
    except IndexError:
        raise MalformedRecords("the batch ends inside a record") from None
    except MalformedBytes as fact:
        raise MalformedRecords(str(fact)) from None


def decode_keys(batch: Buffer, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> list[KeyFact]:
    """What key compaction asks of every record, without its value and headers."""
    return list(keys_in(*open_batch(batch, decompressed_bytes_max)))


def keys_in(header: BatchHeader, body: Content) -> Iterator[KeyFact]:
    """The same of a batch that was opened, one after the other: a small batch may hold millions."""
    try:
        yield from _keys_in(header, body)
    except IndexError:
        raise MalformedRecords("the batch ends inside a record") from None
    except MalformedBytes as fact:
        raise MalformedRecords(str(fact)) from None


# The two loops below are the only hot ones over records. They repeat the reading of a varint's first byte instead of
# calling for it, which halves their time; nothing else in this package should look like them.


def _skip(body: Content, count: int) -> int:
    """Where the record behind `count` others begins."""
    position = 0
    for _ in range(count):
        raw = body[position]
        position += 1
        if raw > 0x7F:
            raw, position = continue_varint(body, position, raw)
        if raw & 1:
            raise MalformedRecords("a record of negative length")
        position += raw >> 1
    return position


def _decode_records(  # noqa: C901, PLR0915
    header: BatchHeader, body: Content, position: int = 0, skipped: int = 0
) -> list[Record]:
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    appended_at = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    records: list[Record] = []
    append = records.append
    last_delta = skipped - 1
    for _ in range(header.record_count - skipped):
        raw = body[position]
        position += 1
        if raw > 0x7F:
            raw, position = continue_varint(body, position, raw)
        end = position + (raw >> 1)
        # a negative length, or one past the body, cannot equal where the fields end
        if raw & 1:
            raise MalformedRecords("a record of negative length")
        raw = body[position + 1]  # behind the attributes, of which no bit has a meaning yet
        position += 2
        if raw > 0x7F:
            raw, position = continue_varint(body, position, raw, VARLONG_BITS)
        timestamp = base_timestamp + ((raw >> 1) ^ -(raw & 1))
        if not INT64_MIN <= timestamp <= INT64_MAX:
            timestamp = wrap_int64(timestamp)
        raw = body[position]
        position += 1
        if raw > 0x7F:
            raw, position = continue_varint(body, position, raw)
        delta = raw >> 1
        if delta <= last_delta or raw & 1:
            raise MalformedRecords(f"offset delta {(raw >> 1) ^ -(raw & 1)} after {last_delta}")
        last_delta = delta
        raw = body[position]
        position += 1
        if raw > 0x7F:
            raw, position = continue_varint(body, position, raw)
        if raw & 1:
            if raw != NULL_LENGTH:
                raise MalformedRecords("a key of negative length")
            key = None
        else:
            start = position
            position += raw >> 1
            key = body[start:position]
        raw = body[position]
        position += 1
        if raw > 0x7F:
            raw, position = continue_varint(body, position, raw)
        if raw & 1:
            if raw != NULL_LENGTH:
                raise MalformedRecords("a value of negative length")
            value = None
        else:
            start = position
            position += raw >> 1
            value = body[start:position]
        if body[position]:
            headers, position = _decode_headers(body, position, end)
        else:
            headers = NO_HEADERS
            position += 1
        # slices clip silently, so this one comparison is what proves that every length above was true
        if position != end:
            raise MalformedRecords(f"the fields of a record end at {position}, the record at {end}")
        if appended_at is not None:
            timestamp = appended_at
        append(_new_tuple(Record, (base_offset + delta, timestamp, key, value, headers)))
    _check_end(header, body, position, last_delta)
    return records


def _decode_headers(body: Content, position: int, end: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, position = decode_varint(body, position)
    if not 0 <= count <= (end - position) // 2:
        raise MalformedRecords(f"{count} headers in {end - position} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length, position = decode_varint(body, position)
        if not 0 <= length <= end - position:
            raise MalformedRecords(f"a header key of {length} bytes, where {end - position} remain")
        # Kafka's Java code replaces what is not UTF-8 as well; a stored batch keeps its bytes either way
        name = body[position : position + length].decode("utf-8", "replace")
        position += length
        length, position = decode_varint(body, position)
        if length == -1:
            headers.append((name, None))
            continue
        if not 0 <= length <= end - position:
            raise MalformedRecords(f"a header value of {length} bytes, where {end - position} remain")
        headers.append((name, body[position : position + length]))
        position += length
    return tuple(headers), position


def _keys_in(header: BatchHeader, body: Content) -> Iterator[KeyFact]:
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    appended_at = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    position, last_delta = 0, -1
    for _ in range(header.record_count):
        raw = body[position]
        position += 1
        if raw > 0x7F:
            raw, position = continue_varint(body, position, raw)
        end = position + (raw >> 1)
        if raw & 1:
            raise MalformedRecords("a record of negative length")
        raw = body[position + 1]
        position += 2
        if raw > 0x7F:
            raw, position = continue_varint(body, position, raw, VARLONG_BITS)
        timestamp = base_timestamp + ((raw >> 1) ^ -(raw & 1))
        if not INT64_MIN <= timestamp <= INT64_MAX:
            timestamp = wrap_int64(timestamp)
        raw = body[position]
        position += 1
        if raw > 0x7F:
            raw, position = continue_varint(body, position, raw)
        delta = raw >> 1
        if delta <= last_delta or raw & 1:
            raise MalformedRecords(f"offset delta {(raw >> 1) ^ -(raw & 1)} after {last_delta}")
        last_delta = delta
        key, position = _decode_key(body, position)
        # the value and the headers are skipped, so here it can only be shown that they have room
        length, position = decode_varint(body, position)
        if not -1 <= length < end - position:
            raise MalformedRecords(f"a value of {length} bytes, where {end - position} remain")
        yield base_offset + delta, timestamp if appended_at is None else appended_at, key, length == -1
        position = end
    _check_end(header, body, position, last_delta)


def _decode_key(body: Content, position: int) -> tuple[bytes | None, int]:
    length, position = decode_varint(body, position)
    if length == -1:
        return None, position
    if not 0 <= length <= len(body) - position:
        raise MalformedRecords(f"a key of {length} bytes, where {len(body) - position} remain")
    return body[position : position + length], position + length


def _check_end(header: BatchHeader, body: Content, position: int, last_delta: int) -> None:
    if position != len(body):
        raise MalformedRecords(f"the records end at {position} of {len(body)} bytes")
    if last_delta > header.last_offset_delta:
        raise MalformedRecords(f"offset delta {last_delta} is above the batch's {header.last_offset_delta}")
