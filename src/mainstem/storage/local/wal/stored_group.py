"""A group as it is found in a file: what recovery, merge and inspection read."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from typing import NamedTuple

from mainstem.storage.local.frame import (
    COMMIT,
    DATA,
    FRAME_MAGIC,
    REF,
    SECTOR_BYTES,
    STATE,
    BadFrame,
    DataHead,
    Frame,
    RefHead,
    StateItem,
    column_bytes,
    decode_commit_head,
    decode_data_head,
    decode_frame,
    decode_ref_head,
    decode_state_head,
    pad_to_sector,
)
from mainstem.wire.checksum import crc32c

try:
    import cython
except ImportError:
    from mainstem.compiled import Uncompiled as cython  # noqa: N813
if not cython.compiled:
    from mainstem.wire.bytes_at import crc32c_at, has_crc32c, i64_at, u32_at

_batch_start = struct.Struct(">qiibI").unpack_from
_BATCH_CRC_FROM = 21
NATIVE_BYTES_MAX = 4096
"""Up to here a sum is taken in place; for more, `crc32c` knows what is fastest, and lets others run meanwhile."""


class BadGroup(Exception):
    """No whole, good group begins here."""

    def __init__(self, position: int, what: str, logs: tuple[int, ...] = ()) -> None:
        super().__init__(what)
        self.position = position
        self.what = what
        self.logs = logs


class StoredGroup(NamedTuple):
    """One group of the write-ahead log, checked whole."""

    position: int
    end: int
    """Position of the next group."""
    sequence: int
    proven: int
    time_ms: int
    data: DataHead | None
    data_position: int
    """Where the first batch lies."""
    refs: RefHead | None
    state: list[StateItem]
    frames: list[Frame]


def check_batches(content: memoryview, frame: Frame, head: DataHead, by_heads: bool) -> None:
    """Every batch must be what the head says: base offset, size, magic and checksum; by heads, only say so."""
    position = frame.body_position
    bases, sizes, crcs = head.bases, head.sizes, head.crcs
    if sum(sizes) != frame.body_bytes or position + frame.body_bytes > len(content):
        raise BadGroup(frame.position, "batches do not fill the frame", tuple(sorted(set(head.logs))))
    data = content
    for index in range(len(sizes)):
        size = sizes[index]
        if size < _BATCH_CRC_FROM:
            raise BadGroup(position, "batch is too short", (head.logs[index],))
        if not _begins(data, position, bases[index], size, crcs[index]):
            raise BadGroup(position, "batch header does not match", (head.logs[index],))
        if not by_heads and _checksum(data, position + _BATCH_CRC_FROM, size - _BATCH_CRC_FROM) != crcs[index]:
            raise BadGroup(position, "batch checksum does not match", (head.logs[index],))
        position += size


def _begins(data: memoryview, at: int, base: int, size: int, crc: int) -> bool:
    """Whether the batch that begins here has this base offset, size and checksum, leader epoch 0 and magic 2."""
    if cython.compiled:
        start = cython.address(data[at])
        return (
            i64_at(start, 0) == base
            and u32_at(start, 8) == size - 12
            and u32_at(start, 12) == 0
            and start[16] == 2
            and u32_at(start, 17) == crc
        )
    return _batch_start(data, at) == (base, size - 12, 0, 2, crc)


def _checksum(data: memoryview, at: int, size: int) -> int:
    if cython.compiled and 0 < size <= NATIVE_BYTES_MAX and has_crc32c():
        return crc32c_at(cython.address(data[at]), 0, size)
    return crc32c(data[at : at + size])


def decode_group(
    content: memoryview, position: int, generation: int, sequence: int, *, by_heads: bool = False
) -> StoredGroup:
    """The group with this number at this position of a file's content; raises BadGroup.

    By heads, only those of its batches need to be there and are checked.
    """
    frames: list[Frame] = []
    data: DataHead | None = None
    refs: RefHead | None = None
    state: list[StateItem] = []
    data_position = 0
    at = position
    last_kind = 0
    logs: tuple[int, ...] = ()
    try:
        while True:
            frame = decode_frame(content, at, generation)
            if frame.sequence != sequence:
                raise BadGroup(at, f"group {frame.sequence} where {sequence} must be", logs)
            if frame.kind <= last_kind:
                raise BadGroup(at, "frames out of order", logs)
            last_kind = frame.kind
            if frame.kind == DATA:
                data = decode_data_head(frame.head)
                logs = tuple(sorted(set(data.logs)))
                check_batches(content, frame, data, by_heads)
                data_position = frame.body_position
            elif frame.kind == REF:
                refs = decode_ref_head(frame.head)
            elif frame.kind == STATE:
                state = decode_state_head(frame.head)
            else:
                assert frame.kind == COMMIT
                commit = decode_commit_head(frame.head)
                if commit.frames != len(frames) or commit.crc != crc32c(column_bytes("I", [f.crc for f in frames])):
                    raise BadGroup(at, "commit frame does not match its group", logs)
                frames.append(frame)
                end = frame.end + pad_to_sector(frame.end)
                return StoredGroup(
                    position, end, sequence, frame.proven, commit.time_ms, data, data_position, refs, state, frames
                )
            frames.append(frame)
            at = frame.end
    except BadFrame as error:
        raise BadGroup(at, str(error), logs) from error


def frames_after(content: memoryview, position: int, generation: int) -> Iterator[Frame]:
    """Good frames of a generation that begin a sector, from a position on: what is left behind a bad group."""
    magic = FRAME_MAGIC.to_bytes(2, "little")
    while position < len(content):
        if content[position : position + 2] == magic:
            with contextlib.suppress(BadFrame):
                yield decode_frame(content, position, generation)
        position += SECTOR_BYTES
