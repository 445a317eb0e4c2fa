"""Blocks of a run that lie side by side: how many of them one read takes, and whether they are what the index says."""

from __future__ import annotations

import struct
from array import array
from typing import Any

from mainstem.storage.runtime.disk import DiskFile, LocalFile
from mainstem.wire.checksum import crc32c
from mainstem.wire.record_batch import HEADER_BYTES

try:
    import cython
except ImportError:
    from mainstem.compiled import Uncompiled as cython  # noqa: N813
if not cython.compiled:
    from mainstem.wire.bytes_at import bad_piece, has_crc32c

    # C functions of run_blocks.pxd
    read_pieces: Any = None
    place_all: Any = None

UNPLACED = "shared block does not hold as many offsets as the index says"
"""What is wrong where `place_batches` answers another offset than the index."""
_START = struct.Struct(">qi11xi")
"""Base offset, length and last offset delta of a batch."""
_BASE = struct.Struct(">q")


def neighbours_end(positions: array[int], sizes: array[int], first: int, stop: int, bytes_max: int) -> int:
    """The end of a stretch of blocks from `first` on that is limited in bytes; one block is always taken."""
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


def read_blocks(
    file: DiskFile,
    view: memoryview,
    positions: array[int],
    sizes: array[int],
    crcs: array[int],
    first: int,
    stop: int,
) -> int:
    """Read blocks one behind the other into a view that they fill; which is not whole, or does not match; -1: all are well.

    Compiled, a piece is checked while the processor has it at hand, and the interpreter is left alone until all are: to get it
    back for each of them takes a reading thread longer than to check it.
    """
    if cython.compiled and type(file) is LocalFile and has_crc32c():
        return read_pieces(file.fd, view, positions, sizes, crcs, first, stop)  # type: ignore[no-any-return]
    at = 0
    while first < stop:
        end = neighbours_end(positions, sizes, first, stop, len(view))
        piece = view[at : at + sum(sizes[first:end])]
        count = file.read_into(piece, positions[first])
        if count < len(piece):
            while count >= sizes[first]:
                count -= sizes[first]
                first += 1
            return first
        bad = bad_block(piece, sizes, crcs, first, end)
        if bad >= 0:
            return bad
        at += len(piece)
        first = end
    return -1


def place_batches(block: memoryview | bytearray, first: int) -> int:
    """Give the batches of a block base offsets without a gap, from `first` on; answers the offset after them.

    That is what makes a shared block one of the log that reads it. Answers -1 if the block does not consist of batches.
    """
    if cython.compiled and len(block):
        return place_all(block, first)  # type: ignore[no-any-return]
    at = 0
    size = len(block)
    while at < size:
        _, length, delta = _START.unpack_from(block, at) if size - at >= HEADER_BYTES else (0, 0, 0)
        if not HEADER_BYTES <= length + 12 <= size - at:
            return -1
        _BASE.pack_into(block, at, first)
        first += delta + 1
        at += length + 12
    return first
