"""Batches as a reader finds them in the write-ahead log: each says itself what it must be."""

from __future__ import annotations

import struct
from array import array
from typing import Any

from mainstem.wire.checksum import crc32c
from mainstem.wire.record_batch import CRC_FROM

try:
    import cython
except ImportError:
    from mainstem.compiled import Uncompiled as cython  # noqa: N813
if not cython.compiled:
    from mainstem.wire.bytes_at import has_crc32c

    # C function of stored_batches.pxd
    find_bad_batch: Any = None

ANY_BASE = -1
"""For the batch behind a reference, which carries another log's base offset."""
_START = struct.Struct(">qiibI")


def bad_batch(content: memoryview, sizes: array[int], bases: array[int]) -> int:
    """Which of the batches that fill `content` has not its size or base offset, or does not match its checksum; -1: none."""
    if cython.compiled and len(content) and has_crc32c():
        return find_bad_batch(content, sizes, bases)  # type: ignore[no-any-return]
    at = 0
    for index, size in enumerate(sizes):
        batch = content[at : at + size]
        if len(batch) < CRC_FROM:
            return index
        base, length, _, magic, crc = _START.unpack_from(batch)
        if magic != 2 or length != size - 12 or bases[index] not in (base, ANY_BASE):
            return index
        if crc32c(batch[CRC_FROM:]) != crc:
            return index
        at += size
    return -1
