"""The index of a run: bytes <-> columns, as docs/storage-format.md draws them.

A run may hold hundreds of thousands of logs and a million blocks, so nothing here is an object per log or per block: an index
*is* its columns, loaded by copying bytes and searched by bisection.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from mainstem.model.errors import CorruptData, UnsupportedFormat
from mainstem.storage.local.frame import (
    FILE_MAGIC,
    SECTOR_BYTES,
    BadFrame,
    column_bytes,
    decode_file_header,
    read_columns,
)
from mainstem.storage.local.runs.key_index import lookup_key_table
from mainstem.storage.runtime.disk import DiskFile
from mainstem.wire.checksum import crc32c

RUN_MAGIC = b"MSRN"
RUN_VERSION = 1
SHARING_VERSION = 2
"""Of a footer in which several logs may point to one block, and which says of each block whose offsets it holds."""
TRAILER_MAGIC = b"MSRNFOOT"
FOOTER_ALIGNMENT = 8

_HEADER = struct.Struct("<4sHHQqIII")
_COUNTS = struct.Struct("<IIII")
_TRAILER = struct.Struct("<QQIQIIqH6xI8s")
_TRAILER_CRC_AT = 52
TRAILER_BYTES = _TRAILER.size

LOG_TYPES = "QqqQqI"
BLOCK_TYPES = "qqqQIII"
SHARING_BLOCK_TYPES = BLOCK_TYPES + "B"
KEY_TYPES = "QQII"


class RunFacts(NamedTuple):
    """What a run says about itself, at its beginning and at its end."""

    id: int
    retention_class: int
    tier: int
    created_ms: int


def encode_run_header(facts: RunFacts) -> bytes:
    """First sector of a written run."""
    run_id, retention_class, tier, created_ms = facts
    bare = _HEADER.pack(RUN_MAGIC, RUN_VERSION, 0, run_id, created_ms, retention_class, tier, 0)[:-4]
    return (bare + crc32c(bare).to_bytes(4, "little")).ljust(SECTOR_BYTES, b"\0")


def encode_footer(
    logs: Sequence[Sequence[int]], blocks: Sequence[Sequence[int]], key_tables: Sequence[Sequence[int]]
) -> bytes:
    """Counts and columns; each argument is the columns of its kind, in the order of its TYPES (of blocks: either of the two)."""
    block_types = BLOCK_TYPES if len(blocks) == len(BLOCK_TYPES) else SHARING_BLOCK_TYPES
    parts = [_COUNTS.pack(len(logs[0]), len(blocks[0]), len(key_tables[0]), 0)]
    for types, columns in ((LOG_TYPES, logs), (block_types, blocks), (KEY_TYPES, key_tables)):
        parts += [column_bytes(typecode, column) for typecode, column in zip(types, columns, strict=True)]
    return b"".join(parts)


def encode_trailer(facts: RunFacts, footer: bytes, position: int, version: int = RUN_VERSION) -> bytes:
    """The last bytes of a run whose footer lies at `position` and is of this version."""
    bare = _TRAILER.pack(
        position,
        len(footer),
        crc32c(footer),
        facts.id,
        facts.retention_class,
        facts.tier,
        facts.created_ms,
        version,
        0,
        TRAILER_MAGIC,
    )[:_TRAILER_CRC_AT]
    return bare + crc32c(bare).to_bytes(4, "little") + TRAILER_MAGIC


class RunIndex:
    """The footer of a run in memory.

    Per log, ascending: `logs`, `firsts`, `nexts`, `bytes`, `times`, `block_starts`. [first, next) is what the run covers of the
    log; key compaction can leave less in it, or no block at all. Per block: `block_firsts`, `block_nexts`, `block_times`,
    `block_positions`, `block_sizes`, `block_crcs`, `block_batches`.

    Where the run `is_shared`, blocks of several logs may have the same position, and `block_foreign` is 1 for a block that holds
    base offsets of other logs: its batches follow each other without a gap from the block's first offset on, and a reader writes
    that into them (`run_blocks.place_batches`). Two blocks are the same bytes, or have none in common.
    """

    __slots__ = (
        "block_batches",
        "block_crcs",
        "block_firsts",
        "block_foreign",
        "block_nexts",
        "block_positions",
        "block_sizes",
        "block_starts",
        "block_times",
        "bytes",
        "created_ms",
        "firsts",
        "id",
        "is_shared",
        "key_crcs",
        "key_entries",
        "key_logs",
        "key_positions",
        "logs",
        "nexts",
        "retention_class",
        "tier",
        "times",
    )

    def __init__(
        self, facts: RunFacts, logs: list[array[int]], blocks: list[array[int]], key_tables: list[array[int]]
    ) -> None:
        self.id, self.retention_class, self.tier, self.created_ms = facts
        self.logs, self.firsts, self.nexts, self.bytes, self.times, self.block_starts = logs
        (
            self.block_firsts,
            self.block_nexts,
            self.block_times,
            self.block_positions,
            self.block_sizes,
            self.block_crcs,
            self.block_batches,
        ) = blocks[: len(BLOCK_TYPES)]
        self.is_shared = len(blocks) > len(BLOCK_TYPES)
        self.block_foreign = blocks[-1] if self.is_shared else array("B")
        self.key_logs, self.key_positions, self.key_entries, self.key_crcs = key_tables

    @classmethod
    def load(cls, file: DiskFile) -> RunIndex:
        """Read and check trailer, footer and first sector. Raises CorruptData, UnsupportedFormat."""
        size = file.size()
        at = size - TRAILER_BYTES
        if at < SECTOR_BYTES + _COUNTS.size:
            raise CorruptData(file.path, 0, "too short for a run")
        facts, version, position, footer_bytes, footer_crc = _decode_trailer(
            file.read(TRAILER_BYTES, at), file.path, at
        )
        if position < SECTOR_BYTES or position % FOOTER_ALIGNMENT or position + footer_bytes != at:
            raise CorruptData(file.path, at, "run trailer does not fit the file")
        footer = file.read(footer_bytes, position)
        if len(footer) != footer_bytes or crc32c(footer) != footer_crc:
            raise CorruptData(file.path, position, "run footer checksum does not match")
        _check_first_sector(file, facts)
        view = memoryview(footer)
        log_count, block_count, key_count, _ = _COUNTS.unpack_from(view)
        try:
            logs, end = read_columns(LOG_TYPES, log_count, view, _COUNTS.size)
            block_types = BLOCK_TYPES if version == RUN_VERSION else SHARING_BLOCK_TYPES
            blocks, end = read_columns(block_types, block_count, view, end)
            key_tables, end = read_columns(KEY_TYPES, key_count, view, end)
        except BadFrame as error:
            raise CorruptData(file.path, position, "run footer is shorter than its columns") from error
        if end != footer_bytes:
            raise CorruptData(file.path, position, "run footer is longer than its columns")
        return cls(facts, logs, blocks, key_tables)

    def find(self, log: int) -> int:
        """The slot of a log, or -1."""
        logs = self.logs
        slot = bisect_left(logs, log)
        return slot if slot < len(logs) and logs[slot] == log else -1

    def blocks(self, slot: int) -> range:
        """The blocks of a log, by offset."""
        starts = self.block_starts
        following = slot + 1
        return range(starts[slot], starts[following] if following < len(starts) else len(self.block_firsts))

    def block_for(self, slot: int, offset: int) -> int:
        """The first block of the log whose next offset is above `offset`; the end of its range when there is none."""
        blocks = self.blocks(slot)
        return bisect_right(self.block_nexts, offset, blocks.start, blocks.stop)

    def foreign_blocks(self, first: int, stop: int) -> bool:
        """Whether any of these blocks holds the base offsets of another log."""
        return self.is_shared and any(self.block_foreign[first:stop])

    def is_key_indexed(self, log: int) -> bool:
        """Whether `key_lookup` knows the keys of this log; without that, a reader must look through the blocks."""
        at = bisect_left(self.key_logs, log)
        return at < len(self.key_logs) and self.key_logs[at] == log

    def key_lookup(self, file: DiskFile, log: int, key_hash: int) -> list[int]:
        """Offsets of the records of `log` whose key has this hash, ascending. Raises CorruptData."""
        tables = range(bisect_left(self.key_logs, log), bisect_right(self.key_logs, log))
        found: list[int] = []
        for table in tables:
            found += lookup_key_table(file, self.id, self.key_positions[table], self.key_entries[table], key_hash)
        return found


def _decode_trailer(data: bytes, path: str, at: int) -> tuple[RunFacts, int, int, int, int]:
    if len(data) != TRAILER_BYTES:
        raise CorruptData(path, at, "file ends within the run trailer")
    position, footer_bytes, footer_crc, run_id, retention_class, tier, created_ms, version, crc, magic = (
        _TRAILER.unpack(data)
    )
    if magic != TRAILER_MAGIC or crc32c(data[:_TRAILER_CRC_AT]) != crc:
        raise CorruptData(path, at, "no valid run trailer")
    if version not in (RUN_VERSION, SHARING_VERSION):
        raise UnsupportedFormat(
            f"{path} has version {version} of the run format; this program knows {RUN_VERSION} and {SHARING_VERSION}"
        )
    return RunFacts(run_id, retention_class, tier, created_ms), version, position, footer_bytes, footer_crc


def _check_first_sector(file: DiskFile, facts: RunFacts) -> None:
    sector = file.read(SECTOR_BYTES, 0)
    if sector[:4] == FILE_MAGIC:
        if decode_file_header(sector, file.path) is None:
            raise CorruptData(file.path, 0, "header of the adopted file does not match its checksum")
    elif sector != encode_run_header(facts):
        raise CorruptData(file.path, 0, "run header does not match the trailer")
