"""From stored batches to columns: many batches at a time, never record by record."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from mainstem.pipelines.codec.record_positions import (
    NULL,
    Bytes,
    Integers,
    Positions,
    find_fields,
    find_headers,
)
from mainstem.pipelines.codec.record_walk import walk_records
from mainstem.wire.compression import decompress
from mainstem.wire.record_batch import HEADER_BYTES, BatchHeader

HAS_NUMBA = importlib.util.find_spec("numba") is not None
DECODERS = ("numpy", "numba")
DECODER_DEFAULT = "numba" if HAS_NUMBA else "numpy"

CONTENT_BYTES_MAX = 8 << 20
"""Content that is decoded together, about: large enough for whole-array operations, small enough for a cache."""


class StoredBatch(NamedTuple):
    """One batch of data, checked."""

    header: BatchHeader
    batch: memoryview


class Columns(NamedTuple):
    """Decoded records."""

    offsets: Integers
    timestamps_ms: Integers
    timestamp_types: Integers
    """0: given by who created the record, 1: by the broker."""
    keys: pa.Array
    values: pa.Array
    headers: pa.Array | None


HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])


def decode_batches(
    batches: Sequence[StoredBatch], *, first: int, end: int, with_headers: bool, decoder: str
) -> Iterator[Columns]:
    """The records with offsets in [first, end)."""
    stretch: list[StoredBatch] = []
    size = 0
    for stored in batches:
        stretch.append(stored)
        # compressed content grows several times; a guess is enough to keep memory bounded
        size += len(stored.batch) * (4 if stored.header.compression else 1)
        if size >= CONTENT_BYTES_MAX:
            yield _decode(stretch, first, end, with_headers, decoder)
            stretch, size = [], 0
    if stretch:
        yield _decode(stretch, first, end, with_headers, decoder)


def _decode(batches: Sequence[StoredBatch], first: int, end: int, with_headers: bool, decoder: str) -> Columns:
    contents = [
        decompress(header.compression, batch[HEADER_BYTES:]) if header.compression else batch[HEADER_BYTES:]
        for header, batch in batches
    ]
    content = b"".join(contents)
    sizes = np.fromiter((len(part) for part in contents), np.int64, len(contents))
    counts = np.fromiter((header.record_count for header, _ in batches), np.int64, len(batches))
    lasts = np.cumsum(sizes)
    view = np.frombuffer(content, np.uint8)
    found = _find(content, view, lasts - sizes, lasts, counts, decoder)
    base_offsets = np.fromiter((header.base_offset for header, _ in batches), np.int64, len(batches))
    base_timestamps = np.fromiter((header.base_timestamp for header, _ in batches), np.int64, len(batches))
    offsets = np.repeat(base_offsets, counts) + found.offset_deltas
    timestamps = np.repeat(base_timestamps, counts) + found.timestamp_deltas
    appended = np.fromiter((header.is_log_append_time for header, _ in batches), np.int64, len(batches))
    types = np.repeat(appended, counts)
    if appended.any():
        max_timestamps = np.fromiter((header.max_timestamp for header, _ in batches), np.int64, len(batches))
        timestamps = np.where(types == 1, np.repeat(max_timestamps, counts), timestamps)
    if len(offsets) and (offsets[0] < first or offsets[-1] >= end):
        kept = (offsets >= first) & (offsets < end)
        offsets, timestamps, types = offsets[kept], timestamps[kept], types[kept]
        found = Positions(*(column[kept] for column in found))
    keys, values = _take_fields(content, found)
    headers = _take_headers(content, view, found) if with_headers else None
    return Columns(offsets, timestamps, types, keys, values, headers)


def _find(content: bytes, view: Bytes, firsts: Integers, lasts: Integers, counts: Integers, decoder: str) -> Positions:
    if decoder == "numba":
        from mainstem.pipelines.codec.compiled_positions import find_fields_compiled

        return find_fields_compiled(view, firsts, lasts, counts)
    starts: list[int] = []
    ends: list[int] = []
    for position, end, count in zip(firsts.tolist(), lasts.tolist(), counts.tolist(), strict=True):
        walk_records(content, position, end, count, starts, ends)
    return find_fields(view, np.array(starts, np.int64), np.array(ends, np.int64))


def _take_fields(content: bytes, found: Positions) -> tuple[pa.Array, pa.Array]:
    # Arrow sees the content as slots: key, what is between, value, what is between; and copies the slots we name.
    count = len(found.end)
    bounds = np.empty(4 * count + 1, np.int32)
    bounds[0:-1:4] = found.key_start
    bounds[1::4] = found.key_start + np.maximum(found.key_size, 0)
    bounds[2::4] = found.value_start
    bounds[3::4] = found.value_start + np.maximum(found.value_size, 0)
    bounds[-1] = len(content)
    slots = pa.Array.from_buffers(pa.binary(), 4 * count, [None, pa.py_buffer(bounds), pa.py_buffer(content)])
    numbers = np.arange(count, dtype=np.int64) * 4
    return _take(slots, numbers, found.key_size), _take(slots, numbers + 2, found.value_size)


def _take_headers(content: bytes, view: Bytes, found: Positions) -> pa.Array:
    headers = find_headers(view, found)
    total = len(headers.name_start)
    bounds = np.empty(4 * total + 1, np.int32)
    bounds[0:-1:4] = headers.name_start
    bounds[1::4] = headers.name_start + headers.name_size
    bounds[2::4] = headers.value_start
    bounds[3::4] = headers.value_start + np.maximum(headers.value_size, 0)
    bounds[-1] = len(content)
    slots = pa.Array.from_buffers(pa.binary(), 4 * total, [None, pa.py_buffer(bounds), pa.py_buffer(content)])
    numbers = np.arange(total, dtype=np.int64) * 4
    names = as_text(_take(slots, numbers, headers.name_size))
    values = _take(slots, numbers + 2, headers.value_size)
    entries = pa.StructArray.from_arrays([names, values], fields=list(HEADER_TYPE))
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(headers.counts)]).astype(np.int32)
    # Spark's Kafka source says null, not an empty list, where there are no headers
    return pa.ListArray.from_arrays(
        pa.array(ends), entries, type=pa.list_(HEADER_TYPE), mask=pa.array(headers.counts == 0)
    )


def _take(slots: pa.Array, numbers: Integers, sizes: Integers) -> pa.Array:
    nulls = sizes == NULL
    return slots.take(pa.array(numbers, mask=nulls) if nulls.any() else pa.array(numbers))


def as_text(array: pa.Array) -> pa.Array:
    """Bytes as text; what is not UTF-8 is replaced, as Kafka's Java client does."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if item is None else item.decode("utf-8", "replace") for item in array.to_pylist()]
        return pa.array(texts, pa.string())
