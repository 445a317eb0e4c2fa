"""A run, checked to the last byte that counts: index, blocks, their batches, key tables, and the groups of an adopted one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from mainstem.model.errors import CorruptData, InvalidBatch, UnsupportedFormat
from mainstem.storage.local.frame import FILE_MAGIC, SECTOR_BYTES, decode_file_header
from mainstem.storage.local.inspection.finding import Finding, damage, finding_of
from mainstem.storage.local.inspection.key_tables import check_key_table
from mainstem.storage.local.inspection.node_state import NodeState
from mainstem.storage.local.inspection.survey import LiveRun
from mainstem.storage.local.inspection.verify.checked import Checked
from mainstem.storage.local.inspection.wal_scan import WalScan
from mainstem.storage.local.runs.key_index import table_bytes
from mainstem.storage.local.runs.needed_blocks import stored_bytes
from mainstem.storage.local.runs.run_file import TRAILER_BYTES, RunIndex
from mainstem.storage.runtime.disk import Disk, DiskFile
from mainstem.wire.checksum import crc32c
from mainstem.wire.record_batch import BatchHeader, batches_in, check_stored_batch


class StoredBlock(NamedTuple):
    """What the batches of a block are, as they are stored."""

    first: int
    next: int
    offsets: int
    """How many they stand for."""
    newest: int
    batches: int
    overlap: tuple[int, int] | None
    """The last offset of a batch and the first of the one after it, if that is not above it."""
    gap: tuple[int, int] | None
    """The same, where offsets between them are missing."""
    has_epoch: bool


class RunCheck:
    """One run."""

    def __init__(self, disk: Disk, path: str, named: LiveRun | None, state: NodeState, checked: Checked) -> None:
        self._disk = disk
        self._path = path
        self._named = named
        """What state says about it; None when nobody can tell."""
        self._state = state
        self._checked = checked
        self._stored: dict[int, StoredBlock | None] = {}
        """Of a run with shared blocks: what was found at a position, None where it was bad."""
        self.index: RunIndex | None = None
        """Once it was read and found good."""

    def findings(self) -> Iterator[Finding]:
        """All that is wrong with it."""
        try:
            file = self._disk.open(self._path, writable=False)
        except OSError as error:
            yield finding_of(error, self._path)
            return
        try:
            self._checked.add_file(file.size())
            index = RunIndex.load(file)
            yield from self._check_facts(index)
            self.index = index
            for slot in range(len(index.logs)):
                yield from self._check_log(file, index, slot)
            for table in range(len(index.key_logs)):
                yield from self._check_key_table(file, index, table)
            if file.read(len(FILE_MAGIC), 0) == FILE_MAGIC:
                yield from self._check_groups(file, index)
        except (CorruptData, UnsupportedFormat, OSError) as error:
            yield finding_of(error, self._path)
        finally:
            file.close()

    def _check_facts(self, index: RunIndex) -> Iterator[Finding]:
        if self._named is not None:
            run_id, _, entry = self._named
            facts = (index.id, index.retention_class, index.tier, stored_bytes(index))
            expected = (run_id, entry.retention_class, entry.tier, entry.bytes)
            if facts != expected:
                what = f"(id, class, tier, bytes) are {facts}; state says {expected}"
                yield damage(self._path, 0, what)
        ascending = all(a < b for a, b in zip(index.logs, index.logs[1:], strict=False))
        starts = [*index.block_starts, len(index.block_firsts)]
        if not ascending or any(a > b for a, b in zip(starts, starts[1:], strict=False)):
            raise CorruptData(self._path, 0, "logs in the run's index are out of order")
        if index.is_shared:
            yield from self._check_sharing(index)

    def _check_sharing(self, index: RunIndex) -> Iterator[Finding]:
        """Blocks are the same bytes or have none in common."""
        blocks = sorted(set(zip(index.block_positions, index.block_sizes, index.block_crcs, strict=True)))
        for (position, size, _), (following, _, _) in zip(blocks, blocks[1:], strict=False):
            if position + size > following:
                yield damage(self._path, following, f"block overlaps that at {position}")

    def _check_log(self, file: DiskFile, index: RunIndex, slot: int) -> Iterator[Finding]:
        log = index.logs[slot]
        covered = index.firsts[slot]
        size, newest = 0, -1
        for block in index.blocks(slot):
            first, next_ = index.block_firsts[block], index.block_nexts[block]
            position = index.block_positions[block]
            if first < covered or next_ <= first:
                yield damage(self._path, position, f"block of offsets {first} to {next_ - 1} overlaps another", (log,))
            elif first > covered and not self._state.may_have_gaps(log):
                yield damage(self._path, position, f"offsets {covered} to {first - 1} are missing", (log,))
            covered = next_
            size += index.block_sizes[block]
            newest = max(newest, index.block_times[block])
            finding = self._check_block(file, index, block, log)
            if finding is not None:
                yield finding
        if index.nexts[slot] < covered or index.bytes[slot] != size or index.times[slot] != newest:
            yield damage(self._path, 0, "index of the log does not match its blocks", (log,))

    def _check_block(self, file: DiskFile, index: RunIndex, block: int, log: int) -> Finding | None:
        """What is wrong with a block. Bytes that logs share are read once, and what is wrong with them is said once."""
        position = index.block_positions[block]
        if position in self._stored:
            stored = self._stored[position]
        else:
            finding, stored = self._read_block(file, index, block)
            if index.is_shared:
                self._stored[position] = stored
            if finding is not None:
                return finding
        what = None if stored is None else self._compare(index, block, log, stored)
        return None if what is None else damage(self._path, position, what, (log,))

    def _read_block(self, file: DiskFile, index: RunIndex, block: int) -> tuple[Finding | None, StoredBlock | None]:
        """What is wrong with the bytes of a block; if nothing is, what they are."""
        position, size = index.block_positions[block], index.block_sizes[block]
        data = memoryview(file.read(size, position))
        if len(data) != size:
            what = f"{size} bytes must be here, {len(data)} are"
            return damage(self._path, position, what, _logs_of(index, block)), None
        headers: list[BatchHeader] = []
        at = 0
        try:
            for at, length in batches_in(data):
                headers.append(check_stored_batch(data[at : at + length]))
        except InvalidBatch as error:
            at = at if not headers else sum(header.size for header in headers)
            what = f"not the batch that was stored: {error}"
            return damage(self._path, position + at, what, _logs_of(index, block)), None
        self._checked.blocks += 1
        self._checked.batches += len(headers)
        if crc32c(data) != index.block_crcs[block]:
            return damage(self._path, position, "block checksum does not match", _logs_of(index, block)), None
        return None, _stored_block(headers)

    def _compare(self, index: RunIndex, block: int, log: int, stored: StoredBlock) -> str | None:
        """What the index says about a block, with what is in it."""
        is_foreign = index.foreign_blocks(block, block + 1)
        first, next_ = stored.first, stored.next
        if is_foreign:
            first = index.block_firsts[block]
            next_ = first + stored.offsets
        facts = (first, next_, stored.newest, stored.batches)
        expected = (
            index.block_firsts[block],
            index.block_nexts[block],
            index.block_times[block],
            index.block_batches[block],
        )
        if facts != expected:
            return f"(first, next, newest, batches) of the block are {facts}; the index says {expected}"
        if not is_foreign:  # if it is, its reader gives the batches offsets without a gap
            jump = stored.overlap or (None if self._state.may_have_gaps(log) else stored.gap)
            if jump is not None:
                return f"batch of offset {jump[1]} follows on offset {jump[0]}"
        return "leader epoch of a batch is not 0" if stored.has_epoch else None

    def _check_key_table(self, file: DiskFile, index: RunIndex, table: int) -> Iterator[Finding]:
        log, position, entries = index.key_logs[table], index.key_positions[table], index.key_entries[table]
        slot = index.find(log)
        if slot < 0:
            yield damage(self._path, position, "key table of a log that is not in the run", (log,))
            return
        offsets = range(index.firsts[slot], index.nexts[slot])
        try:
            check_key_table(file, index.id, position, entries, index.key_crcs[table], offsets)
        except CorruptData as error:
            yield damage(error.file, error.position, error.what, (log,))
        self._checked.key_tables += 1

    def _check_groups(self, file: DiskFile, index: RunIndex) -> Iterator[Finding]:
        """An adopted run is still a file of the write-ahead log, up to its key tables and its footer."""
        header = decode_file_header(file.read(SECTOR_BYTES, 0), self._path)
        assert header is not None  # the index was loaded: it checks that
        if self._named is not None and header.generation != self._named.entry.adopted:
            yield damage(self._path, 0, f"generation {header.generation}; state says {self._named.entry.adopted}")
        footer = int.from_bytes(file.read(8, file.size() - TRAILER_BYTES), "little")
        end = footer - sum(map(table_bytes, index.key_entries))
        scan = WalScan(memoryview(file.read(end, 0)), header, None)
        for group in scan.groups():
            self._checked.groups += 1
            if group.end >= end:
                return
        _, position, sequence, what, logs = scan.ending
        yield damage(self._path, position, f"{what} (group {sequence})", logs)


def _stored_block(headers: list[BatchHeader]) -> StoredBlock:
    jumps = [
        (earlier.last_offset, later.base_offset)
        for earlier, later in zip(headers, headers[1:], strict=False)
        if later.base_offset != earlier.next_offset
    ]
    return StoredBlock(
        headers[0].base_offset,
        headers[-1].next_offset,
        sum(header.last_offset_delta + 1 for header in headers),
        max(header.max_timestamp for header in headers),
        len(headers),
        next((jump for jump in jumps if jump[1] <= jump[0]), None),
        next((jump for jump in jumps if jump[1] > jump[0]), None),
        any(header.leader_epoch for header in headers),
    )


def _logs_of(index: RunIndex, block: int) -> tuple[int, ...]:
    """The logs that have a block."""
    if not index.is_shared:
        return (index.logs[bisect_right(index.block_starts, block) - 1],)
    position = index.block_positions[block]
    entries = [entry for entry, other in enumerate(index.block_positions) if other == position]
    return tuple(index.logs[bisect_right(index.block_starts, entry) - 1] for entry in entries)
