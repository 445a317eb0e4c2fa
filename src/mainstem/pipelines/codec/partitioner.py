"""Which partition a row goes to, as Kafka's clients decide it: by the key's hash, or, without a key, to one after the other.

The hash is murmur2 as Kafka's Java client has it, over all keys of a column at once: their words are taken in lock step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_POSITIVE = np.uint32(0x7FFFFFFF)

Integers = NDArray[np.int64]


def binary_parts(column: pa.BinaryArray) -> tuple[Integers, NDArray[np.uint8]]:
    """Where each value begins and ends, and the bytes they are in."""
    _, offsets, data = column.buffers()
    kind: Any = np.int64 if pa.types.is_large_binary(column.type) else np.int32
    bounds = np.frombuffer(offsets, kind, len(column) + 1, column.offset * np.dtype(kind).itemsize).astype(np.int64)
    content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return bounds, content


def murmur2(column: pa.BinaryArray) -> NDArray[np.uint32]:
    """The hash of each key; of a null, that of no bytes."""
    bounds, content = binary_parts(column)
    starts, lengths = bounds[:-1], np.diff(bounds)
    hashes = _SEED ^ lengths.astype(np.uint32)
    if not len(hashes):
        return hashes
    # Longest first: those that still have a word are always at the front.
    order = np.argsort(-lengths, kind="stable")
    starts, lengths, hashes = starts[order], lengths[order], hashes[order]
    words = lengths >> 2
    for word in range(int(words[0])):
        active = int(np.searchsorted(-words, -word, side="left"))
        at = starts[:active] + 4 * word
        mixed = _bytes_at(content, at, 4) * _M
        mixed ^= mixed >> np.uint32(24)
        mixed *= _M
        hashes[:active] = hashes[:active] * _M ^ mixed
    left = lengths & 3
    for rest in (1, 2, 3):
        chosen = left == rest
        if chosen.any():
            at = starts[chosen] + 4 * words[chosen]
            hashes[chosen] = (hashes[chosen] ^ _bytes_at(content, at, rest)) * _M
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    found = np.empty_like(hashes)
    found[order] = hashes
    return found


def _bytes_at(content: NDArray[np.uint8], at: Integers, count: int) -> NDArray[np.uint32]:
    """Up to four bytes from each place on, the first as the lowest."""
    value = content[at].astype(np.uint32)
    for byte in range(1, count):
        value |= content[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    return value


def partitions_by_key(keys: pa.BinaryArray, count: int) -> Integers:
    """The partition of each key, among `count` partitions."""
    return ((murmur2(keys) & _POSITIVE) % np.uint32(count)).astype(np.int64)


class StickyPartition:
    """For rows without a key: one partition until it has received a number of bytes, then the next."""

    def __init__(self, first: int, bytes_each: int) -> None:
        self._bytes = first * bytes_each
        self._bytes_each = bytes_each

    def take(self, sizes: Integers, count: int) -> Integers:
        """The partitions of rows of these sizes."""
        before = self._bytes + np.cumsum(sizes) - sizes
        self._bytes += int(sizes.sum())
        return before // self._bytes_each % count
