"""One file as rows: of the write-ahead log, a run, a state run.

The first is read whole, the others piece by piece: memory does not depend on how much is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from mainstem.model.errors import CorruptData, InvalidBatch, UnsupportedFormat
from mainstem.storage.local.frame import (
    COMMIT,
    DATA,
    KIND_NAMES,
    REF,
    SECTOR_BYTES,
    STATE,
    Frame,
    decode_file_header,
)
from mainstem.storage.local.inspection.dump.batch_rows import batch_rows, state_row
from mainstem.storage.local.inspection.dump.rows import (
    AnyRow,
    BlockRow,
    EndRow,
    FileRow,
    FrameRow,
    GroupRow,
    KeyRow,
    KeyTableRow,
    LogRow,
    TroubleRow,
)
from mainstem.storage.local.inspection.dump.selection import Selection
from mainstem.storage.local.inspection.finding import finding_of
from mainstem.storage.local.inspection.key_tables import read_key_pages
from mainstem.storage.local.inspection.wal_scan import WalScan
from mainstem.storage.local.runs.run_blocks import UNPLACED, place_batches
from mainstem.storage.local.runs.run_file import RunIndex
from mainstem.storage.local.runs.state_run import read_state_run
from mainstem.storage.local.wal.stored_group import StoredGroup
from mainstem.storage.runtime.disk import Disk, DiskFile
from mainstem.wire.checksum import crc32c
from mainstem.wire.record_batch import batches_in, place_batch

IsAlive: TypeAlias = Callable[[int, int], bool]
"""Whether anything of a log below an offset can still be read."""


def everything(log: int, next_offset: int) -> bool:
    """Dead data too."""
    return True


class FileDump:
    """Shows files."""

    def __init__(self, disk: Disk, selection: Selection, is_alive: IsAlive = everything, merged: int = 0) -> None:
        self._disk = disk
        self._selection = selection
        self._is_alive = is_alive
        self._merged = merged
        """Batches of groups up to this one are shown where they were merged to."""

    def rows(self, path: str, kind: str, following: int | None = None) -> Iterator[AnyRow]:
        """All rows of a file; what cannot be read is a row too."""
        try:
            file = self._disk.open(path, writable=False)
        except OSError as error:
            yield _trouble(error, path)
            return
        try:
            if kind == "wal":
                yield from self._wal_rows(file, following)
            elif kind == "run":
                yield from self._run_rows(file)
            else:
                yield from self._state_rows(file)
        except (CorruptData, UnsupportedFormat, OSError) as error:
            yield _trouble(error, path)
        finally:
            file.close()

    # Write-ahead log

    def _wal_rows(self, file: DiskFile, following: int | None) -> Iterator[AnyRow]:
        header = decode_file_header(file.read(SECTOR_BYTES, 0), file.path)
        if header is None:
            yield FileRow(file.path, "wal", file.size(), {"header": None})
            return
        facts = header._asdict() | {"node": header.node.hex()}
        yield FileRow(file.path, "wal", file.size(), facts)
        scan = WalScan(memoryview(file.read(file.size(), 0)), header, following)
        for group in scan.groups():
            yield from self._group_rows(file.path, scan.content, group)
        verdict, position, _, what, logs = scan.ending
        if verdict in ("damaged", "broken"):
            yield TroubleRow(file.path, position, what, logs)
        else:
            yield EndRow(position, f"torn tail: {what}" if verdict == "torn" else "no more groups")

    def _group_rows(self, path: str, content: memoryview, group: StoredGroup) -> Iterator[AnyRow]:
        merged = group.sequence <= self._merged
        size = group.end - group.position
        yield GroupRow(group.position, group.sequence, group.proven, group.time_ms, size, merged)
        for frame in group.frames:
            crc, head_bytes = frame.crc, len(frame.head)
            yield FrameRow(frame.position, KIND_NAMES[frame.kind], head_bytes, frame.body_bytes, crc)
            if frame.kind == STATE:
                for scope, key, value in group.state:
                    yield state_row(scope, key, value, self._selection)
            elif frame.kind != COMMIT and not merged:
                yield from self._data_rows(path, content, group, frame)

    def _data_rows(self, path: str, content: memoryview, group: StoredGroup, frame: Frame) -> Iterator[AnyRow]:
        assert group.data is not None
        position = group.data_position
        places: dict[tuple[int, int], tuple[int, int]] = {}
        data = group.data
        for log, base, size, count in zip(data.logs, data.bases, data.sizes, data.counts, strict=True):
            places[log, base] = (position, size)
            if frame.kind == DATA and self._is_alive(log, base + count):
                yield from batch_rows(path, log, content[position : position + size], position, self._selection)
            position += size
        if frame.kind != REF or group.refs is None:
            return
        for log, base, _, source, source_base, _, count, _ in zip(*group.refs, strict=True):
            place = places.get((source, source_base))
            if place is None:
                yield TroubleRow(path, frame.position, f"no batch at offset {source_base} of log {source}", (log,))
            elif self._is_alive(log, base + count):
                batch = bytearray(content[place[0] : sum(place)])
                place_batch(batch, 0, base, 0)
                yield from batch_rows(path, log, batch, place[0], self._selection, (source, source_base))

    # Runs

    def _run_rows(self, file: DiskFile) -> Iterator[AnyRow]:
        index = RunIndex.load(file)
        facts = {
            "id": f"{index.id:016x}",
            "retention_class": index.retention_class,
            "tier": index.tier,
            "created_ms": index.created_ms,
            "logs": len(index.logs),
            "blocks": len(index.block_firsts),
            "key_tables": len(index.key_logs),
            "shared": index.is_shared,
        }
        yield FileRow(file.path, "run", file.size(), facts)
        log = self._selection.log
        slots = range(len(index.logs)) if log is None else [index.find(log)]
        for slot in slots:
            if slot >= 0:
                yield from self._log_rows(file, index, slot)
        for table, log in enumerate(index.key_logs):
            if self._selection.wants_log(log):
                yield from self._key_table_rows(file, index, table)

    def _log_rows(self, file: DiskFile, index: RunIndex, slot: int) -> Iterator[AnyRow]:
        log, blocks = index.logs[slot], index.blocks(slot)
        yield LogRow(log, index.firsts[slot], index.nexts[slot], index.bytes[slot], index.times[slot], len(blocks))
        for block in range(index.block_for(slot, self._selection.from_offset or 0), blocks.stop):
            if self._is_alive(log, index.block_nexts[block]):
                yield from self._block_rows(file, index, log, block)

    def _block_rows(self, file: DiskFile, index: RunIndex, log: int, block: int) -> Iterator[AnyRow]:
        position, size = index.block_positions[block], index.block_sizes[block]
        is_foreign = index.foreign_blocks(block, block + 1)
        yield BlockRow(
            log,
            index.block_firsts[block],
            index.block_nexts[block],
            index.block_times[block],
            position,
            size,
            index.block_batches[block],
            index.block_crcs[block],
            foreign=is_foreign,
        )
        data = memoryview(bytearray(file.read(size, position)))
        if crc32c(data) != index.block_crcs[block]:
            yield TroubleRow(file.path, position, "block checksum does not match", (log,))
            return
        if is_foreign and place_batches(data, index.block_firsts[block]) != index.block_nexts[block]:
            yield TroubleRow(file.path, position, UNPLACED, (log,))
            return
        try:
            for at, length in batches_in(data):
                yield from batch_rows(file.path, log, data[at : at + length], position + at, self._selection)
        except InvalidBatch as error:
            yield TroubleRow(file.path, position, f"block does not hold batches: {error}", (log,))

    def _key_table_rows(self, file: DiskFile, index: RunIndex, table: int) -> Iterator[AnyRow]:
        log, position = index.key_logs[table], index.key_positions[table]
        entries = index.key_entries[table]
        yield KeyTableRow(log, position, entries, index.key_crcs[table])
        if not self._selection.records:
            return
        for page in read_key_pages(file, index.id, position, entries):
            for key_hash, offset in zip(page.hashes, page.offsets, strict=True):
                yield KeyRow(log, f"{key_hash:016x}", offset)

    # State

    def _state_rows(self, file: DiskFile) -> Iterator[AnyRow]:
        run = read_state_run(self._disk, file.path)
        yield FileRow(file.path, "state", file.size(), {"from": run.from_, "to": run.to, "created_ms": run.created_ms})
        for scope, key, value in run.items:
            yield state_row(scope, key, value, self._selection)


def _trouble(error: CorruptData | UnsupportedFormat | OSError, path: str) -> TroubleRow:
    finding = finding_of(error, path)
    return TroubleRow(finding.file, finding.position, finding.what, finding.logs)
