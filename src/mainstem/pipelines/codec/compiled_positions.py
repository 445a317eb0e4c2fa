"""`record_positions` in one compiled pass, for who has numba (extra `spark-fast`)."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from mainstem.pipelines.codec.record_positions import NULL, Bytes, Integers, Positions
from mainstem.wire.errors import MalformedRecords

FIELDS = len(Positions._fields)

# numba's functions have no types that mypy could see
_compiled: Any = numba.njit(cache=True, nogil=True)


@_compiled
def _varint(content, at, end):  # type: ignore[no-untyped-def]
    raw = np.uint64(0)
    shift = np.uint64(0)
    while at < end and shift < 64:
        byte = np.uint64(content[at])
        at += 1
        raw |= (byte & np.uint64(0x7F)) << shift
        if byte < 0x80:
            return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1)), at
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


@_compiled
def _find(content, firsts, lasts, counts, out):  # type: ignore[no-untyped-def]
    row = 0
    for batch in range(len(firsts)):
        at, stop = firsts[batch], lasts[batch]
        for _ in range(counts[batch]):
            length, at = _varint(content, at, stop)
            if at < 0 or length < 0 or length > stop - at:
                return False
            end = at + length
            timestamp, at = _varint(content, at + 1, end)
            if at < 0:
                return False
            offset, at = _varint(content, at, end)
            if at < 0:
                return False
            key_size, at = _varint(content, at, end)
            if at < 0 or key_size < NULL or key_size > end - at:
                return False
            key_start = at
            value_size, at = _varint(content, at + max(key_size, 0), end)
            if at < 0 or value_size < NULL or value_size > end - at:
                return False
            headers = at + max(value_size, 0)
            if headers >= end:
                return False
            out[0, row] = timestamp
            out[1, row] = offset
            out[2, row] = key_start
            out[3, row] = key_size
            out[4, row] = at
            out[5, row] = value_size
            out[6, row] = headers
            out[7, row] = end
            at = end
            row += 1
        if at != stop:
            return False
    return True


def find_fields_compiled(content: Bytes, firsts: Integers, lasts: Integers, counts: Integers) -> Positions:
    """The fields of the records of stretches, each with its count."""
    out = np.empty((FIELDS, int(counts.sum())), np.int64)
    if not _find(content, firsts, lasts, counts, out):
        raise MalformedRecords("the fields of a record do not fit into it")
    return Positions(*out)
