"""The committed records of one partition, a piece at a time: from an offset on, or down from one.

A piece is read and opened in one go. What is large or compressed is opened by a thread, so that the event loop is not held up.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Sequence

from mainstem.broker.heavy_work import HeavyWork
from mainstem.model.errors import InvalidBatch, OffsetOutOfRange
from mainstem.storage.contract import Edge, Engine, KeyAfter, ReadHint, ReadResult
from mainstem.wire.record_batch import BatchHeader, Record, batches_in, decode_records, read_header

PIECE_BYTES_MAX = 64 << 10
"""Read at once of a single partition; of several, each has its share."""
PIECE_BYTES_MIN = 4 << 10
WINDOW_BYTES = 256 << 10
"""Read at once downwards, by the average size of the partition's records."""
WINDOW_RECORDS_MIN, WINDOW_RECORDS_MAX = 64, 2_000
"""Of the first piece downwards, and of later ones: each is twice as large as the one before."""
OPENED_BYTES_MAX = 16 << 20
"""Of one batch, decompressed. A larger one is passed over and counted."""


class Strand:
    """One partition. `records` holds what was read and not taken yet, in the order of reading."""

    def __init__(self, engine: Engine, heavy_work: HeavyWork, partition: int, log: int, offset: int) -> None:
        self.partition = partition
        self.offset = offset
        """Upwards: the next offset to be taken. Downwards: all from here on was taken."""
        self.records: deque[Record] = deque()
        self.is_complete = False
        """Whether nothing more can be read at present."""
        self.unreadable = 0
        """Records in batches that cannot be opened."""
        self.piece_bytes = PIECE_BYTES_MAX
        self.key: bytes | None = None
        """Records of other keys may be passed over: the log finds those of this one. None: all are read."""
        self._engine = engine
        self._heavy_work = heavy_work
        self._log = log
        self._read_to = offset

    def take(self) -> Record:
        """The next record."""
        record = self.records.popleft()
        self.offset = record.offset + 1
        return record

    async def fill(self) -> None:
        """Read the next piece that has records, if there is one. Raises UnknownLog, CorruptData."""
        while not self.records and not self.is_complete:
            if self.key is not None and not await self._find(self.key):
                break
            try:
                result = await self._engine.read(self._log, self._read_to, self.piece_bytes, ReadHint.CATCH_UP)
            except OffsetOutOfRange as error:
                if self._read_to >= error.start:
                    raise
                self._read_to = error.start  # retention was faster
                continue
            first, end = self._read_to, min(result.next_offset, result.stable)
            self.is_complete = end <= first or end >= result.stable
            self._read_to = max(first, end)
            self.records.extend(await self._open(result, first, self._read_to))
        if not self.records:
            self.offset = max(self.offset, self._read_to)

    async def _find(self, key: bytes) -> bool:
        """Go on to the next record with this key; answers whether there is one."""
        stable = (await self._engine.offset_at(self._log, Edge.STABLE)).offset
        found = (await self._engine.offset_at(self._log, KeyAfter(key, self._read_to))).offset
        if 0 <= found < stable:
            self._read_to = max(self._read_to, found)
            return True
        self._read_to, self.is_complete = max(self._read_to, stable), True
        return False

    async def _open(self, result: ReadResult, first: int, end: int) -> list[Record]:
        job = functools.partial(open_committed, result, first, end)
        opened, unreadable = await self._heavy_work.run(job) if is_heavy(result) else job()
        self.unreadable += unreadable
        return opened


class DownwardStrand(Strand):
    """The same from an offset down to the start of the partition."""

    _window_records = WINDOW_RECORDS_MIN

    def take(self) -> Record:
        """The record before."""
        record = self.records.popleft()
        self.offset = record.offset
        return record

    async def fill(self) -> None:
        """Read the piece before. Raises UnknownLog, CorruptData."""
        while not self.records and not self.is_complete:
            start = (await self._engine.offset_at(self._log, Edge.START)).offset
            facts = await self._engine.read(self._log, start, 0)
            upper = min(self._read_to, facts.stable)
            lower = max(start, upper - _window(facts, min(upper - start, self._window_records)))
            self._window_records = min(2 * self._window_records, WINDOW_RECORDS_MAX)
            found: list[Record] = []
            position = lower
            while position < upper:
                try:
                    result = await self._engine.read(self._log, position, self.piece_bytes, ReadHint.CATCH_UP)
                except OffsetOutOfRange:
                    break  # trimmed while we read
                end = min(result.next_offset, upper)
                if end <= position:
                    break
                found += await self._open(result, position, end)
                position = end
            self._read_to = lower
            self.is_complete = lower <= start
            self.records.extend(reversed(found))
        if not self.records:
            self.offset = min(self.offset, self._read_to)


def _window(facts: ReadResult, left: int) -> int:
    """How many offsets to go down by."""
    average = max(1, facts.stored_bytes // max(1, facts.end - facts.start))
    return max(1, min(left, WINDOW_BYTES // average))


def is_heavy(result: ReadResult) -> bool:
    """Whether a thread should open it."""
    size = 0
    for buffer in result.batches:
        size += len(buffer)
        if size > PIECE_BYTES_MAX or any(read_header(buffer, at).compression for at, _ in batches_in(buffer)):
            return True
    return False


def open_committed(result: ReadResult, first: int, end: int) -> tuple[list[Record], int]:
    """Committed records of these offsets, and how many could not be opened."""
    opened: list[Record] = []
    unreadable = 0
    for buffer in result.batches:
        view = memoryview(buffer)
        for position, size in batches_in(buffer):
            header = read_header(buffer, position)
            if header.next_offset <= first or header.base_offset >= end or is_void(header, result):
                continue
            try:
                records: Sequence[Record] = decode_records(view[position : position + size], OPENED_BYTES_MAX, first)
            except InvalidBatch:
                unreadable += header.record_count
                continue
            if header.base_offset < first or header.next_offset > end:
                records = [record for record in records if first <= record.offset < end]
            opened += records
    return opened, unreadable


def is_void(header: BatchHeader, result: ReadResult) -> bool:
    """Whether a batch has no record that was committed."""
    if header.is_control or not header.record_count:
        return True
    return header.is_transactional and any(
        aborted.producer == header.producer_id and aborted.first <= header.base_offset <= aborted.last
        for aborted in result.aborted
    )
