"""From Arrow columns to the bodies of v2 batches, all rows at once, never record by record.

A record is joined from a few pieces: the numbers before its key, the key, the length of the value, the value, the headers. Where
`record_join` is compiled it joins them. Else the numbers of all records are written into one matrix, a row per record, and the
bytes in use taken out of it; Arrow then joins the pieces of each row, and leaves all records one after the other in one buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mainstem.model.header_names import DUE_HEADER
from mainstem.model.staging import DUE_BYTES
from mainstem.pipelines.codec.partitioner import Integers
from mainstem.pipelines.codec.record_join import AVAILABLE, join_records
from mainstem.wire.record_batch.encoding import assemble_batch, head_batch
from mainstem.wire.record_batch.header import HEADER_BYTES, NO_EPOCH, NO_PRODUCER, NO_SEQUENCE

NULL_LENGTH = -1
VARINT_BYTES_MAX = 10
RECORD_OVERHEAD = 24
"""The numbers of one record, about: for sizes before it is encoded."""

_NOTHING: Integers = np.zeros(0, np.int64)
_NO_BYTES = np.zeros(0, np.uint8)


class Rows(NamedTuple):
    """Columns of as many rows. Keys and values are binary; headers are lists of (key, value), or there are none."""

    key: pa.LargeBinaryArray
    value: pa.LargeBinaryArray
    timestamp_ms: Integers
    headers: pa.ListArray | None
    due_ms: Integers | None = None
    """When each is to be published, in a header before all others; None: at once."""
    places: Integers | None = None
    """Where the key and the value of each row are in their columns; None: in the order of the rows. All else is in it."""


def row_sizes(rows: Rows) -> Integers:
    """The bytes of each record, a few more rather than fewer."""
    sizes = _lengths(rows.key, 0) + _lengths(rows.value, 0) + RECORD_OVERHEAD
    if rows.places is not None:
        sizes = sizes[rows.places]
    tails = _encode_tails(rows)
    if tails is not None:
        sizes += _lengths(tails, 0)
    return sizes


def encode_rows(rows: Rows, firsts: Integers, room: int = 0) -> list[memoryview]:
    """The records of each batch; `firsts` are the rows with which batches begin, the first of them 0.

    Before the records of each batch is so much room; where they are not joined by us, there is none.
    """
    count = len(rows.timestamp_ms)
    counts = np.diff(firsts, append=count)
    offset_deltas = np.arange(count) - np.repeat(firsts, counts)
    timestamp_deltas = rows.timestamp_ms - np.repeat(rows.timestamp_ms[firsts], counts)
    key_lengths, value_lengths = _lengths(rows.key, NULL_LENGTH), _lengths(rows.value, NULL_LENGTH)
    tails = _encode_tails(rows)

    if AVAILABLE:
        bounds = np.empty(count + 1, np.int64)
        tail_bounds, tail_content = (_NOTHING, _NO_BYTES) if tails is None else _parts(tails)
        (key_bounds, keys), (value_bounds, values) = _parts(rows.key), _parts(rows.value)
        whole = memoryview(
            join_records(
                keys,
                key_bounds,
                key_lengths,
                values,
                value_bounds,
                value_lengths,
                tail_content,
                tail_bounds,
                timestamp_deltas,
                offset_deltas,
                np.arange(count) if rows.places is None else rows.places,
                room,
                bounds,
            )
        )
    else:
        assert rows.places is None, "Arrow joins what is in order"
        assert room == 0, "Arrow leaves none"
        bounds, whole = _join_by_arrow(rows, tails, timestamp_deltas, offset_deltas, key_lengths, value_lengths)
    begins = bounds[firsts] - room
    return [whole[begin:end] for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(whole)], strict=True)]


def _join_by_arrow(
    rows: Rows,
    tails: pa.LargeBinaryArray | None,
    timestamp_deltas: Integers,
    offset_deltas: Integers,
    key_lengths: Integers,
    value_lengths: Integers,
) -> tuple[Integers, memoryview]:
    """Where each record begins and the last one ends, and all of them."""
    count = len(timestamp_deltas)
    before_key = [_zigzag(timestamp_deltas), _zigzag(offset_deltas), _zigzag(key_lengths)]
    before_value = _zigzag(value_lengths)
    sizes = 1 + sum(_varint_sizes(numbers) for numbers in (*before_key, before_value))
    sizes += np.maximum(key_lengths, 0) + np.maximum(value_lengths, 0)
    sizes += 1 if tails is None else _lengths(tails, 0)
    # Behind its length, a record begins with its attributes, which are none.
    length_and_attributes = _zigzag(sizes)
    heads = _varints([length_and_attributes, np.zeros(count, np.uint64), *before_key])
    records = pc.binary_join_element_wise(
        heads,
        rows.key,
        _varints([before_value]),
        rows.value,
        tails if tails is not None else pa.scalar(b"\0", pa.large_binary()),
        pa.scalar(b"", pa.large_binary()),
        null_handling="replace",
        null_replacement="",
    )
    bounds, content = _parts(records)
    return bounds, content.data


def encode_batches(
    rows: Rows, firsts: Integers, positions: Sequence[int], compression: int
) -> Sequence[bytearray | memoryview]:
    """A v2 batch for each of `firsts`, with its position as base offset."""
    count = len(rows.timestamp_ms)
    bases = rows.timestamp_ms[firsts].tolist()
    newest = np.maximum.reduceat(rows.timestamp_ms, firsts).tolist()
    counts = np.diff(firsts, append=count).tolist()
    # What is not compressed is joined where it stays.
    room = HEADER_BYTES if AVAILABLE and not compression else 0
    batches: list[bytearray | memoryview] = []
    for content, position, base, latest, records in zip(
        encode_rows(rows, firsts, room), positions, bases, newest, counts, strict=True
    ):
        facts = {
            "base_offset": position,
            "leader_epoch": -1,
            "attributes": compression,
            "last_offset_delta": records - 1,
            "base_timestamp": base,
            "max_timestamp": latest,
            "producer_id": NO_PRODUCER,
            "producer_epoch": NO_EPOCH,
            "base_sequence": NO_SEQUENCE,
            "record_count": records,
        }
        if room:
            head_batch(content, **facts)
            batches.append(content)
        else:
            batches.append(assemble_batch(content, **facts))
    return batches


def _encode_tails(rows: Rows) -> pa.LargeBinaryArray | None:
    """What stands behind each value: the number of headers, and the headers. None: no record has any."""
    if rows.due_ms is not None:
        counts, headers = (
            (np.zeros(len(rows.due_ms), np.int64), None) if rows.headers is None else _encode_headers(rows.headers)
        )
        pieces = [_varints([_zigzag(counts + 1)]), _encode_due(rows.due_ms), *([] if headers is None else [headers])]
    elif rows.headers is not None:
        counts, headers = _encode_headers(rows.headers)
        pieces = [_varints([_zigzag(counts)]), headers]
    else:
        return None
    return pc.binary_join_element_wise(*pieces, pa.scalar(b"", pa.large_binary()))


def _encode_due(due_ms: Integers) -> pa.LargeBinaryArray:
    """The header that says when a record is to be published, of each."""
    name = DUE_HEADER.encode()
    before = bytes([2 * len(name)]) + name + bytes([2 * DUE_BYTES])
    size = len(before) + DUE_BYTES
    content = np.empty((len(due_ms), size), np.uint8)
    content[:, : len(before)] = np.frombuffer(before, np.uint8)
    content[:, len(before) :] = due_ms.astype(">i8").view(np.uint8).reshape(-1, DUE_BYTES)
    bounds = np.arange(len(due_ms) + 1, dtype=np.int64) * size
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(due_ms), [None, pa.py_buffer(bounds), pa.py_buffer(content)]
    )


def _encode_headers(headers: pa.ListArray) -> tuple[Integers, pa.LargeBinaryArray]:
    """How many headers each record has, and those one after the other."""
    entries = headers.flatten()
    keys = entries.field("key").cast(pa.large_string()).cast(pa.large_binary())
    values = entries.field("value").cast(pa.large_binary())
    pieces = pc.binary_join_element_wise(
        _varints([_zigzag(_lengths(keys, 0))]),
        keys,
        _varints([_zigzag(_lengths(values, NULL_LENGTH))]),
        values,
        pa.scalar(b"", pa.large_binary()),
        null_handling="replace",
        null_replacement="",
    )
    counts = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    # All entries stand one after the other: those of a record are a stretch of the same bytes.
    bounds, content = _parts(pieces)
    ends = np.concatenate(([0], np.cumsum(counts)))
    joined = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(counts), [None, pa.py_buffer(bounds[ends]), pa.py_buffer(content)]
    )
    return counts, joined


def _parts(column: pa.LargeBinaryArray) -> tuple[Integers, NDArray[np.uint8]]:
    """Where each value begins and ends, and the bytes they are in."""
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int64, len(column) + 1, column.offset * 8)
    return bounds, np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)


def _lengths(column: pa.LargeBinaryArray, null: int) -> Integers:
    lengths: Integers = np.diff(_parts(column)[0])
    if column.null_count:
        lengths[pc.is_null(column).to_numpy(zero_copy_only=False)] = null
    return lengths


def _zigzag(numbers: Integers) -> NDArray[np.uint64]:
    signed: Integers = numbers << 1 ^ numbers >> 63
    return signed.view(np.uint64)


def _varint_sizes(numbers: NDArray[np.uint64]) -> Integers:
    sizes = np.ones(len(numbers), np.int64)
    largest = int(numbers.max(initial=0))
    for bits in range(7, 7 * VARINT_BYTES_MAX, 7):
        if largest >> bits == 0:
            break
        sizes += numbers >= np.uint64(1 << bits)
    return sizes


def _varints(columns: Sequence[NDArray[np.uint64]]) -> pa.LargeBinaryArray:
    """Several numbers of each row, one after the other."""
    rows = len(columns[0])
    matrix: list[NDArray[np.uint8]] = []
    used: list[NDArray[np.bool_]] = []
    sizes = np.zeros(rows, np.int64)
    for numbers in columns:
        largest = int(numbers.max(initial=0))
        rest = numbers
        for place in range(VARINT_BYTES_MAX):
            is_used = np.ones(rows, np.bool_) if place == 0 else rest != 0
            following = rest >> np.uint64(7)
            low = (rest & np.uint64(0x7F)).astype(np.uint8)
            low[following != 0] |= 0x80
            matrix.append(low)
            used.append(is_used)
            sizes += is_used
            rest = following
            if largest >> (7 * (place + 1)) == 0:
                break
    content = np.stack(matrix, axis=1)[np.stack(used, axis=1)]
    bounds = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), rows, [None, pa.py_buffer(bounds), pa.py_buffer(np.ascontiguousarray(content))]
    )
