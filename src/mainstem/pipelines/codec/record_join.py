"""Records one after the other in one buffer, out of columns of their pieces. Only compiled: as Python, `batch_encoding` has Arrow
join them, which is the same several times slower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import cython
except ImportError:
    from mainstem.compiled import Uncompiled as cython  # noqa: N813

if TYPE_CHECKING:
    from mainstem.pipelines.codec.partitioner import Integers

if not cython.compiled:
    # C functions of record_join.pxd
    signed_varint_size: Any = None
    put_signed_varint = put_part = start_of = unwritten = signed_varint_size

AVAILABLE = bool(cython.compiled)
NO_HEADERS_BYTES = 1


def join_records(
    keys: Any,
    key_bounds: Integers,
    key_sizes: Integers,
    values: Any,
    value_bounds: Integers,
    value_sizes: Integers,
    tails: Any,
    tail_bounds: Integers,
    timestamp_deltas: Integers,
    offset_deltas: Integers,
    places: Integers,
    room: int,
    bounds: Integers,
) -> bytearray:
    """All records. Sizes are -1 for null; without tails, whose bounds are none then, a record has no headers.

    `places` tells which key and value are those of each row; all else is in the order of the rows. Before each row with offset
    delta 0, with which a batch begins, so much room is left. `bounds` has room for one number more than there are rows: it is
    told where each record begins, and the last one ends.
    """
    rows = len(timestamp_deltas)
    has_tails = len(tail_bounds) > 0
    if (
        key_bounds[rows] > len(keys)
        or value_bounds[rows] > len(values)
        or (has_tails and tail_bounds[rows] > len(tails))
    ):
        raise ValueError("a column is shorter than it says")
    at = 0
    for row in range(rows):
        if offset_deltas[row] == 0:
            at += room
        bounds[row] = at
        place = places[row]
        size = 1 + signed_varint_size(timestamp_deltas[row]) + signed_varint_size(offset_deltas[row])
        size += signed_varint_size(key_sizes[place]) + max(key_sizes[place], 0)
        size += signed_varint_size(value_sizes[place]) + max(value_sizes[place], 0)
        size += tail_bounds[row + 1] - tail_bounds[row] if has_tails else NO_HEADERS_BYTES
        at += signed_varint_size(size) + size
    bounds[rows] = at
    out: bytearray = unwritten(cython.NULL, at)
    data = out
    key_data, value_data, tail_data = start_of(keys), start_of(values), start_of(tails)
    for row in range(rows):
        at = bounds[row]
        place = places[row]
        size = bounds[row + 1] - at
        if row + 1 < rows and offset_deltas[row + 1] == 0:
            size -= room
        # The length of the rest has as many bytes as make it fit: one to ten.
        tail = size - 1
        while signed_varint_size(tail) + tail > size:
            tail -= 1
        at = put_signed_varint(data, at, tail)
        data[at] = 0  # attributes: none
        at = put_signed_varint(data, at + 1, timestamp_deltas[row])
        at = put_signed_varint(data, at, offset_deltas[row])
        at = put_signed_varint(data, at, key_sizes[place])
        at = put_part(data, at, key_data, key_bounds[place], key_sizes[place])
        at = put_signed_varint(data, at, value_sizes[place])
        at = put_part(data, at, value_data, value_bounds[place], value_sizes[place])
        if has_tails:
            at = put_part(data, at, tail_data, tail_bounds[row], tail_bounds[row + 1] - tail_bounds[row])
        else:
            data[at] = 0
            at += 1
    return out
