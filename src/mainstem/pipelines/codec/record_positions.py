"""Where the fields of records are, for all records of a stretch of batches at once.

Only the lengths of records are walked one after another, because each says where the next one is (`record_walk`). Every
field is then found for all records together, one numpy operation for each. With numba (extra
`spark-fast`) one compiled pass finds the same; both are held against each other by tests.

Nothing here trusts a length: a field that would leave its record is `MalformedRecords`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mainstem.wire.errors import MalformedRecords

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

VARINT_BITS_MAX = 63
NULL = -1


class Positions(NamedTuple):
    """One entry per record, all of them positions in the content."""

    timestamp_deltas: Integers
    offset_deltas: Integers
    key_start: Integers
    key_size: Integers
    """`NULL` for none, as in `value_size`."""
    value_start: Integers
    value_size: Integers
    headers_start: Integers
    end: Integers


class HeaderPositions(NamedTuple):
    """One entry per header, those of a record next to each other."""

    counts: Integers
    """Of each record."""
    name_start: Integers
    name_size: Integers
    value_start: Integers
    value_size: Integers


def find_fields(content: Bytes, starts: Integers, ends: Integers) -> Positions:
    """The fields of records that begin and end there; headers are left to `find_headers`."""
    try:
        timestamps, at = read_varints(content, starts + 1)
        offsets, at = read_varints(content, at)
        key_sizes, key_starts = read_varints(content, at)
        value_sizes, value_starts = read_varints(content, _behind(key_starts, key_sizes, ends))
        headers = _behind(value_starts, value_sizes, ends)
    except IndexError:
        raise MalformedRecords("the batch ends inside a record") from None
    if (headers >= ends).any():
        raise MalformedRecords("a record ends inside its value")
    return Positions(timestamps, offsets, key_starts, key_sizes, value_starts, value_sizes, headers, ends)


def find_headers(content: Bytes, positions: Positions) -> HeaderPositions:
    """The headers of all records: first of each, second of each, and so on."""
    try:
        counts, at = read_varints(content, positions.headers_start)
        if (counts < 0).any() or (counts > (positions.end - at) // 2).any():
            raise MalformedRecords("more headers than their record has room for")
        total = int(counts.sum())
        found = [np.zeros(total, np.int64) for _ in range(4)]
        first = np.cumsum(counts) - counts
        rank = 0
        having = np.flatnonzero(counts)
        while having.size:
            ends = positions.end[having]
            name_size, name_start = read_varints(content, at[having])
            if (name_size < 0).any():
                raise MalformedRecords("a header without a name")
            value_size, value_start = read_varints(content, _behind(name_start, name_size, ends))
            at[having] = _behind(value_start, value_size, ends)
            slots = first[having] + rank
            for column, values in zip(found, (name_start, name_size, value_start, value_size), strict=True):
                column[slots] = values
            rank += 1
            having = having[counts[having] > rank]
    except IndexError:
        raise MalformedRecords("the batch ends inside a header") from None
    if (at != positions.end).any():
        raise MalformedRecords("the fields of a record do not end where it does")
    return HeaderPositions(counts, *found)


def read_varints(content: Bytes, at: Integers) -> tuple[Integers, Integers]:
    """The zigzag varints at these positions, and where they end."""
    first = content[at]
    raw = (first & 0x7F).astype(np.uint64)
    after = at + 1
    more = np.flatnonzero(first > 0x7F)
    shift = 7
    while more.size:
        if shift > VARINT_BITS_MAX:
            raise MalformedRecords("a varint of more than 64 bits")
        byte = content[after[more]]
        raw[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[more] += 1
        more = more[byte > 0x7F]
        shift += 7
    return (raw >> np.uint64(1)).astype(np.int64) ^ -(raw & np.uint64(1)).astype(np.int64), after


def _behind(starts: Integers, sizes: Integers, ends: Integers) -> Integers:
    if (sizes < NULL).any():
        raise MalformedRecords("a field of negative length")
    behind = starts + np.maximum(sizes, 0)
    # a size near 2^63 would wrap around, so it is compared before it is added to
    if (sizes > ends - starts).any():
        raise MalformedRecords("a field is longer than its record")
    return behind
