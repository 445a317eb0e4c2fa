"""How far behind: in messages, and in the age of the first record that was not consumed yet."""

from __future__ import annotations

from typing import NamedTuple

from mainstem.broker.broker import Broker
from mainstem.broker.log import Buffer, Edge
from mainstem.model.errors import InvalidBatch, MainstemError
from mainstem.wire.record_batch import NO_TIMESTAMP, BatchHeader, batches_in, decode_keys, read_header

TIMES_MAX = 10_000
"""Timestamps remembered: a group that stands still is not read for again."""
READS_MAX = 16
"""Reads in search of a record, past markers and what compaction left empty."""
DECODED_BYTES_MAX = 64 << 10
"""Larger batches are not opened: their first record stands for all."""


class Lag(NamedTuple):
    """What lies behind a position."""

    messages: int
    seconds: float | None
    """0 at the end; None when it cannot be told."""
    timestamp_ms: int | None
    end: int
    start: int = 0
    """Of the log."""


class LagMeter:
    """Measures lag."""

    def __init__(self, broker: Broker, times_max: int = TIMES_MAX) -> None:
        self._broker = broker
        self._times_max = times_max
        self._times: dict[tuple[int, int], int] = {}

    async def measure(self, log: int, offset: int) -> Lag:
        """What lies behind an offset. Raises UnknownLog."""
        end = (await self._broker.find(log, Edge.END)).offset
        start = (await self._broker.find(log, Edge.START)).offset
        first = max(offset, start)
        if first >= end:
            return Lag(0, 0.0, None, end, start)
        try:
            timestamp = await self._timestamp(log, first)
        except MainstemError:
            return Lag(end - first, None, None, end, start)  # cannot be read, or was trimmed while we looked
        if timestamp is None:
            return Lag(end - first, 0.0, None, end, start)  # only markers
        if timestamp == NO_TIMESTAMP:
            return Lag(end - first, None, None, end, start)
        return Lag(end - first, max(0, self._broker.clock.now_ms() - timestamp) / 1000, timestamp, end, start)

    async def _timestamp(self, log: int, offset: int) -> int | None:
        """Of the first record at or above the offset; None when there is none."""
        known = self._times.get((log, offset))
        if known is not None:
            return known
        position = offset
        for _ in range(READS_MAX):
            result = await self._broker.read(log, position, 1)
            for buffer in result.batches:
                timestamp = _first_timestamp(buffer, offset)
                if timestamp is not None:
                    if len(self._times) >= self._times_max:
                        self._times.clear()
                    self._times[log, offset] = timestamp
                    return timestamp
            if not position < result.next_offset < result.end:
                break
            position = result.next_offset
        return None


def _first_timestamp(buffer: Buffer, offset: int) -> int | None:
    for position, size in batches_in(buffer):
        header = read_header(buffer, position)
        if header.next_offset > offset and header.record_count and not header.is_control:
            timestamp = _timestamp_in(memoryview(buffer)[position : position + size], header, offset)
            if timestamp is not None:
                return timestamp
    return None


def _timestamp_in(batch: memoryview, header: BatchHeader, offset: int) -> int | None:
    if header.is_log_append_time:
        return header.max_timestamp
    first = header.base_timestamp if header.delete_horizon_ms is None else None
    if first is not None and (header.base_offset >= offset or len(batch) > DECODED_BYTES_MAX):
        return first
    try:
        return next((time for at, time, _, _ in decode_keys(batch, DECODED_BYTES_MAX) if at >= offset), None)
    except InvalidBatch:  # too large once it is decompressed
        return header.max_timestamp if first is None else first
