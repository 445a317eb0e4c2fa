"""Runs come into being here: written from blocks, or a WAL file adopted as it is.

Until the last rename (written) or the last sync (adopted) nothing on disk is a run: a written one has a temporary name, an
adopted one no trailer. Whatever a crash leaves, it is either no run or a whole one.
"""

from __future__ import annotations

import contextlib
from array import array

from mainstem.storage.contract import Buffer
from mainstem.storage.local.directories import TEMPORARY_SUFFIX
from mainstem.storage.local.frame import SECTOR_BYTES
from mainstem.storage.local.limits import MergeLimits
from mainstem.storage.local.runs.block_sharing import SharedBlock
from mainstem.storage.local.runs.key_index import KeyTableBuilder, encode_key_table
from mainstem.storage.local.runs.run_file import (
    BLOCK_TYPES,
    FOOTER_ALIGNMENT,
    KEY_TYPES,
    LOG_TYPES,
    RUN_VERSION,
    SHARING_BLOCK_TYPES,
    SHARING_VERSION,
    RunFacts,
    encode_footer,
    encode_run_header,
    encode_trailer,
)
from mainstem.storage.local.runs.stored_file import run_name
from mainstem.storage.runtime.disk import Disk


class FooterColumns:
    """The index of a run in the making. Logs ascend, and so do the blocks of one."""

    __slots__ = ("_blocks", "_key_tables", "_logs", "_next", "is_shared")

    def __init__(self) -> None:
        self._logs: list[array[int]] = [array(typecode) for typecode in LOG_TYPES]
        self._blocks: list[array[int]] = [array(typecode) for typecode in SHARING_BLOCK_TYPES]
        self._key_tables: list[array[int]] = [array(typecode) for typecode in KEY_TYPES]
        self._next = 0
        self.is_shared = False
        """Whether several logs may point to one block."""

    def begin_log(self, log: int, first: int) -> None:
        """What follows is of this log; the run covers it from `first` on, or from its first block where that is lower."""
        logs, firsts, nexts, sizes, times, starts = self._logs
        assert not logs or logs[-1] < log, "logs must ascend"
        logs.append(log)
        firsts.append(first)
        nexts.append(first)
        sizes.append(0)
        times.append(-1)
        starts.append(len(self._blocks[0]))

    def add_block(
        self,
        first: int,
        next_: int,
        time: int,
        position: int,
        size: int,
        crc: int,
        batches: int,
        *,
        is_foreign: bool = False,
    ) -> None:
        """The next block of the log begun last."""
        _, firsts, nexts, sizes, times, starts = self._logs
        (
            block_firsts,
            block_nexts,
            block_times,
            block_positions,
            block_sizes,
            block_crcs,
            block_batches,
            block_foreign,
        ) = self._blocks
        if starts[-1] == len(block_firsts):
            firsts[-1] = min(firsts[-1], first)
        else:
            assert block_nexts[-1] <= first, "blocks of a log must ascend"
        nexts[-1] = next_
        sizes[-1] += size
        times[-1] = max(times[-1], time)
        block_firsts.append(first)
        block_nexts.append(next_)
        block_times.append(time)
        block_positions.append(position)
        block_sizes.append(size)
        block_crcs.append(crc)
        block_batches.append(batches)
        block_foreign.append(is_foreign)

    def end_log(self, next_: int) -> int:
        """The run covers the log up to `next_`, or to the end of its last block where that is higher; answers which."""
        nexts = self._logs[2]
        nexts[-1] = max(nexts[-1], next_)
        return nexts[-1]

    def add_key_table(self, log: int, position: int, entries: int, crc: int) -> None:
        """Name a key table; tables of one log follow each other."""
        for column, value in zip(self._key_tables, (log, position, entries, crc), strict=True):
            column.append(value)

    def encode(self) -> bytes:
        """As it is stored."""
        blocks = self._blocks if self.is_shared else self._blocks[: len(BLOCK_TYPES)]
        return encode_footer(self._logs, blocks, self._key_tables)

    @property
    def version(self) -> int:
        """Of the footer."""
        return SHARING_VERSION if self.is_shared else RUN_VERSION

    @property
    def block_count(self) -> int:
        """Blocks so far."""
        return len(self._blocks[0])


class RunWriter:
    """One run being written, log by log."""

    def __init__(self, disk: Disk, directory: str, facts: RunFacts, limits: MergeLimits) -> None:
        self.facts = facts
        self.path = f"{directory}/{run_name(facts.id)}"
        self._disk = disk
        self._directory = directory
        self._limits = limits
        self._temporary = self.path + TEMPORARY_SUFFIX
        if disk.exists(self._temporary):  # what an interrupted job left behind
            disk.remove(self._temporary)
        self._file = disk.open(self._temporary, create=True)
        self._columns = FooterColumns()
        self._log = -1
        self._pending: list[Buffer] = [encode_run_header(facts)]
        self._pending_bytes = SECTOR_BYTES
        self._written = 0
        self._synced = 0
        self._named = False

    @property
    def bytes(self) -> int:
        """Length so far, without the footer."""
        return self._written + self._pending_bytes

    @property
    def is_empty(self) -> bool:
        """Whether there is no block yet."""
        return self._columns.block_count == 0

    def begin_log(self, log: int, first: int) -> None:
        """What follows is of this log, covered from `first` on."""
        self._log = log
        self._columns.begin_log(log, first)

    def add_block(self, first: int, next_: int, time: int, data: Buffer, crc: int, batches: int) -> None:
        """The next block of the log begun last; the buffer must not change any more."""
        self._columns.add_block(first, next_, time, self.bytes, len(data), crc, batches)
        self._append(data)

    def add_bytes(self, data: Buffer) -> int:
        """Bytes of a shared block, which belongs to no log by itself; answers where they lie."""
        position = self.bytes
        self._append(data)
        return position

    def add_shared(self, first: int, next_: int, block: SharedBlock, *, is_foreign: bool) -> None:
        """The next block of the log begun last is one that is in this run already."""
        assert block.run == self.facts.id
        self._columns.is_shared = True
        self._columns.add_block(
            first, next_, block.time, block.position, block.size, block.crc, block.batches, is_foreign=is_foreign
        )

    def end_log(self, next_: int) -> int:
        """The log is covered up to `next_`; answers how far it is in fact."""
        return self._columns.end_log(next_)

    def add_key_table(self, table: KeyTableBuilder) -> None:
        """Keys of the log begun last."""
        position = self.bytes
        data, crc = encode_key_table(table.hashes, table.offsets, self.facts.id, position)
        self._columns.add_key_table(self._log, position, len(table), crc)
        self._append(data)

    def finish(self) -> int:
        """Footer, trailer, sync, name; answers the length of the file."""
        padding = -self.bytes % FOOTER_ALIGNMENT
        if padding:
            self._append(bytes(padding))
        footer = self._columns.encode()
        trailer = encode_trailer(self.facts, footer, self.bytes, self._columns.version)
        self._append(footer)
        self._append(trailer)
        self._flush()
        self._file.sync()
        self._file.close()
        self._disk.rename(self._temporary, self.path)
        self._named = True
        self._disk.sync_directory(self._directory)
        return self._written

    def abandon(self) -> None:
        """Leave nothing behind, as far as the disk lets us."""
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            self._disk.remove(self.path if self._named else self._temporary)

    def _append(self, data: Buffer) -> None:
        self._pending.append(data)
        self._pending_bytes += len(data)
        if self._pending_bytes >= self._limits.write_bytes:
            self._flush()

    def _flush(self) -> None:
        self._file.write(self._pending, self._written)
        self._written += self._pending_bytes
        self._pending = []
        self._pending_bytes = 0
        if self._written - self._synced >= self._limits.sync_stride_bytes:
            self._file.sync()
            self._synced = self._written


class AdoptedRun:
    """A sealed WAL file that becomes a run as it is: only its index is made, and written behind its last group."""

    def __init__(self, path: str, generation: int, end: int, facts: RunFacts) -> None:
        self.path = path
        self.generation = generation
        self.facts = facts
        self.columns = FooterColumns()
        self._end = end
        self._data_end = end + -end % FOOTER_ALIGNMENT
        self._tables: list[bytes] = []

    def add_key_table(self, log: int, table: KeyTableBuilder) -> None:
        """Keys of one log; tables lie between the last group and the footer."""
        position = self._data_end + sum(map(len, self._tables))
        data, crc = encode_key_table(table.hashes, table.offsets, self.facts.id, position)
        self.columns.add_key_table(log, position, len(table), crc)
        self._tables.append(data)

    def write(self, disk: Disk) -> int:
        """Cut the file after its last group and write the index there; answers the length of the file.

        The groups stay untouched, so that the file is still one of the write-ahead log, whether this succeeds or not.
        """
        file = disk.open(self.path)
        try:
            # What an earlier attempt, or an earlier use of the file, left behind the last group, goes.
            file.truncate(self._end)
            file.truncate(self._data_end)
            position = self._data_end + sum(map(len, self._tables))
            footer = self.columns.encode()
            trailer = encode_trailer(self.facts, footer, position)
            written = file.write([*self._tables, footer, trailer], self._data_end)
            file.sync()
            return self._data_end + written
        finally:
            file.close()

    def revert(self, disk: Disk) -> None:
        """Cut the index off again, as far as the disk lets us."""
        with contextlib.suppress(OSError):
            file = disk.open(self.path)
            try:
                file.truncate(self._end)
            finally:
                file.close()
