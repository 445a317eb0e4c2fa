"""Blocks of a run that lie side by side: how many of them one read takes, and whether they are what the index says."""

from __future__ import annotations

from array import array

from mainstem.wire.checksum import crc32c

try:
    import cython
except ImportError:
    from mainstem.compiled import Uncompiled as cython  # noqa: N813
if not cython.compiled:
    from mainstem.wire.bytes_at import bad_piece, has_crc32c


def neighbours_end(positions: array[int], sizes: array[int], first: int, stop: int, bytes_max: int) -> int:
    """The block after those from `first` on that are one stretch of at most so many bytes; one block is taken always."""
    block = first
    start = at = positions[first]
    while block < stop and positions[block] == at and (block == first or at + sizes[block] - start <= bytes_max):
        at += sizes[block]
        block += 1
    return block


def bad_block(content: memoryview, sizes: array[int], crcs: array[int], first: int, stop: int) -> int:
    """Which of these blocks, whose bytes follow each other in `content`, does not match its checksum; -1: all do."""
    if cython.compiled and len(content) and has_crc32c():
        return bad_piece(content, sizes, crcs, first, stop)
    at = 0
    for block in range(first, stop):
        size = sizes[block]
        if crc32c(content[at : at + size]) != crcs[block]:
            return block
        at += size
    return -1
