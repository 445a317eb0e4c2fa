"""Pages of the records of a topic, over all its partitions, oldest or newest first, with a filter.

Records of several partitions are merged by their timestamps; within a partition the order is that of the offsets. A page is
bounded: in records, in bytes, and in the work of finding them. A filter that finds little answers how far it came.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from mainstem.broker.clock import Clock
from mainstem.broker.heavy_work import HeavyWork
from mainstem.broker.records.filters import Wanted
from mainstem.broker.records.strands import PIECE_BYTES_MAX, PIECE_BYTES_MIN, DownwardStrand, Strand
from mainstem.coordination.catalog.topic_config import is_key_indexed
from mainstem.coordination.errors import UnknownTopic
from mainstem.model.errors import OffsetOutOfRange
from mainstem.storage.contract import Edge, Engine, LogEnd, TimeAfter
from mainstem.wire.record_batch import Record

if TYPE_CHECKING:
    from mainstem.coordination.catalog.catalog import Topic

PARTITIONS_MAX = 256
"""Read together; a topic with more is read by the partition."""
SLICE_S = 0.002
"""How long a scan may hold the loop before others get their turn."""
SLICE_RECORDS = 50
"""Looked at between two looks at the clock."""


class ScanLimits(NamedTuple):
    """What one page may cost."""

    records: int = 10_000
    """Looked at."""
    seconds: float = 0.1
    page_bytes: int = 4 << 20
    """Of keys, values and headers in one page, but for a single record that is larger."""


class FoundRecord(NamedTuple):
    """A record and its partition."""

    partition: int
    record: Record


class RecordPage(NamedTuple):
    """Some records, and how far the scan came."""

    found: list[FoundRecord]
    positions: dict[int, int]
    """By partition: where to go on."""
    scanned: int
    is_complete: bool
    """Whether nothing more is there, in this direction and at present."""
    unreadable: int


class Records:
    """Of all topics."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        heavy_work: HeavyWork,
        limits: ScanLimits = ScanLimits(),  # noqa: B008
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._heavy_work = heavy_work
        self._limits = limits

    async def positions(
        self, topic: Topic, partitions: list[int], *, time_ms: int | None = None, at: Edge = Edge.START
    ) -> dict[int, int]:
        """Of each partition: its edge, or the first record since a time, or the end where there is none."""
        found: dict[int, int] = {}
        for partition in partitions:
            log = topic.logs[partition]
            offset = -1
            if time_ms is not None:
                offset = (await self._engine.offset_at(log, TimeAfter(time_ms))).offset
            if offset < 0:
                edge = at if time_ms is None else Edge.STABLE
                offset = (await self._engine.offset_at(log, edge)).offset
            found[partition] = offset
        return found

    async def check(self, topic: Topic, partition: int, offset: int) -> None:
        """Raises OffsetOutOfRange for what is above the end."""
        end = (await self._engine.offset_at(topic.logs[partition], Edge.END)).offset
        if offset > end:
            start = (await self._engine.offset_at(topic.logs[partition], Edge.START)).offset
            raise OffsetOutOfRange(offset, start, end)

    async def page(
        self,
        topic: Topic,
        positions: Mapping[int, int],
        limit: int,
        wanted: Wanted | None = None,
        *,
        key: bytes | None = None,
        newest_first: bool = False,
    ) -> RecordPage:
        """Records from these positions on, or before them. `key` says that `wanted` wants no others: a topic with an
        index of keys finds them by it.

        Raises UnknownTopic, UnknownLog, CorruptData.
        """
        strands = self._strands(topic, positions, newest_first)
        sign = -1 if newest_first else 1
        if key is not None and not newest_first and is_key_indexed(topic.configs):
            for strand in strands:
                strand.key, strand.piece_bytes = key, PIECE_BYTES_MIN
        line: list[tuple[int, int]] = []
        by_partition = {strand.partition: strand for strand in strands}
        found: list[FoundRecord] = []
        scanned = size = 0
        begun = slice_from = self._clock.monotonic()
        for strand in strands:
            await strand.fill()
            _stand_in_line(line, strand, sign)
        while line:
            strand = by_partition[line[0][1]]
            record = strand.take()
            scanned += 1
            if wanted is None or wanted(strand.partition, record):
                found.append(FoundRecord(strand.partition, record))
                size += size_of(record)
            heapq.heappop(line)
            if len(found) >= limit or size >= self._limits.page_bytes or scanned >= self._limits.records:
                break
            if not strand.records:
                await strand.fill()
            _stand_in_line(line, strand, sign)
            if scanned % SLICE_RECORDS == 0:
                now = self._clock.monotonic()
                if now - begun >= self._limits.seconds:
                    break
                if now - slice_from >= SLICE_S:
                    await asyncio.sleep(0)
                    slice_from = self._clock.monotonic()
        is_complete = all(not strand.records and strand.is_complete for strand in strands)
        unreadable = sum(strand.unreadable for strand in strands)
        return RecordPage(found, {s.partition: s.offset for s in strands}, scanned, is_complete, unreadable)

    def _strands(self, topic: Topic, positions: Mapping[int, int], newest_first: bool) -> list[Strand]:
        kind = DownwardStrand if newest_first else Strand
        strands = []
        for partition, offset in positions.items():
            if partition >= len(topic.logs):
                raise UnknownTopic(f"topic {topic.name} has {len(topic.logs)} partitions")
            strand = kind(self._engine, self._heavy_work, partition, topic.logs[partition], offset)
            strand.piece_bytes = max(PIECE_BYTES_MIN, PIECE_BYTES_MAX // len(positions))
            strands.append(strand)
        return strands

    async def wait(self, topic: Topic, positions: Mapping[int, int], seconds: float) -> bool:
        """Until one of the partitions reaches beyond its position; whether that was in time. Raises UnknownLog."""
        grown = asyncio.Event()
        by_log = {topic.logs[partition]: offset for partition, offset in positions.items()}

        def moved(ends: Mapping[int, LogEnd]) -> None:
            if any(end.end < 0 or end.stable > by_log[log] for log, end in ends.items()):
                grown.set()

        watch = self._engine.watch(moved)
        try:
            ends = {log: watch.add(log) for log in by_log}
            moved({log: end for log, end in ends.items() if end is not None})
            async with asyncio.timeout(seconds):
                await grown.wait()
        except TimeoutError:
            return False
        finally:
            watch.close()
        return True


def _stand_in_line(line: list[tuple[int, int]], strand: Strand, sign: int) -> None:
    if strand.records:
        heapq.heappush(line, (sign * strand.records[0].timestamp_ms, strand.partition))


def size_of(record: Record) -> int:
    """Bytes of its content."""
    headers = sum(len(name) + len(content or b"") for name, content in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers
