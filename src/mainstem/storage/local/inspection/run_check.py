"""A run, checked to the last byte that counts: index, blocks, their batches, key tables, and the groups of an adopted one."""

from __future__ import annotations

from collections.abc import Iterator

from mainstem.model.errors import CorruptData, InvalidBatch, UnsupportedFormat
from mainstem.storage.disk import Disk, DiskFile
from mainstem.storage.local.frame import FILE_MAGIC, SECTOR_BYTES, decode_file_header
from mainstem.storage.local.inspection.checked import Checked
from mainstem.storage.local.inspection.finding import Finding, damage, finding_of
from mainstem.storage.local.inspection.key_tables import check_key_table
from mainstem.storage.local.inspection.node_state import NodeState
from mainstem.storage.local.inspection.survey import LiveRun
from mainstem.storage.local.inspection.wal_scan import WalScan
from mainstem.storage.local.key_index import table_bytes
from mainstem.storage.local.run_file import TRAILER_BYTES, RunIndex
from mainstem.wire.checksum import crc32c
from mainstem.wire.record_batch import BatchHeader, batches_in, check_stored_batch


class RunCheck:
    """One run."""

    def __init__(self, disk: Disk, path: str, named: LiveRun | None, state: NodeState, checked: Checked) -> None:
        self._disk = disk
        self._path = path
        self._named = named
        """What state says about it; None when nobody can tell."""
        self._state = state
        self._checked = checked
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
            facts = (index.id, index.retention_class, index.tier, sum(index.bytes))
            expected = (run_id, entry.retention_class, entry.tier, entry.bytes)
            if facts != expected:
                what = f"(id, class, tier, bytes) are {facts}; state says {expected}"
                yield damage(self._path, 0, what)
        ascending = all(a < b for a, b in zip(index.logs, index.logs[1:], strict=False))
        starts = [*index.block_starts, len(index.block_firsts)]
        if not ascending or any(a > b for a, b in zip(starts, starts[1:], strict=False)):
            raise CorruptData(self._path, 0, "logs in the run's index are out of order")

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
        position, size = index.block_positions[block], index.block_sizes[block]
        data = memoryview(file.read(size, position))
        if len(data) != size:
            return damage(self._path, position, f"{size} bytes must be here, {len(data)} are", (log,))
        headers: list[BatchHeader] = []
        at = 0
        try:
            for at, length in batches_in(data):
                headers.append(check_stored_batch(data[at : at + length]))
        except InvalidBatch as error:
            at = at if not headers else sum(header.size for header in headers)
            return damage(self._path, position + at, f"not the batch that was stored: {error}", (log,))
        self._checked.blocks += 1
        self._checked.batches += len(headers)
        if crc32c(data) != index.block_crcs[block]:
            return damage(self._path, position, "block checksum does not match", (log,))
        what = self._compare(index, block, log, headers)
        return None if what is None else damage(self._path, position, what, (log,))

    def _compare(self, index: RunIndex, block: int, log: int, headers: list[BatchHeader]) -> str | None:
        """What the index says about a block, with what is in it."""
        facts = (
            headers[0].base_offset,
            headers[-1].next_offset,
            max(header.max_timestamp for header in headers),
            len(headers),
        )
        expected = (
            index.block_firsts[block],
            index.block_nexts[block],
            index.block_times[block],
            index.block_batches[block],
        )
        if facts != expected:
            return f"(first, next, newest, batches) of the block are {facts}; the index says {expected}"
        gaps = self._state.may_have_gaps(log)
        for earlier, later in zip(headers, headers[1:], strict=False):
            if later.base_offset < earlier.next_offset or (later.base_offset > earlier.next_offset and not gaps):
                return f"batch of offset {later.base_offset} follows on offset {earlier.last_offset}"
        if any(header.leader_epoch for header in headers):
            return "leader epoch of a batch is not 0"
        return None

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
