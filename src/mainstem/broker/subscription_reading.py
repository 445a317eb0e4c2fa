"""From what was read of a log to what is leased of it: whole batches, and which of their records count."""

from __future__ import annotations

from typing import NamedTuple

from mainstem.coordination.subscription import Cursor, Leased, Limits
from mainstem.storage.contract import Buffer, ReadResult
from mainstem.wire.record_batch import BatchHeader, batches_in, read_header

RECORDS_IN_STRETCH_MAX = 1 << 62


class Wish(NamedTuple):
    """How much somebody wants of one log."""

    owner: str
    records_max: int
    bytes_max: int
    is_strict: bool = False
    """No record more; otherwise a batch that is begun is given whole."""
    stretch: int = 1
    """Stretches of neighbouring batches are told as one until they have so many records."""


class Taken(NamedTuple):
    """Batches, and the stretches of them that are leased; other records in them are somebody else's or settled."""

    batches: list[Buffer]
    leased: list[Leased]

    @property
    def records(self) -> int:
        """How many are leased."""
        return sum(last - first + 1 for first, last, _ in self.leased)


def lease_from(
    cursor: Cursor, result: ReadResult, wish: Wish, limits: Limits, committed_only: bool, now_ms: int
) -> Taken:
    """Lease what is free in these batches; what never counts (markers, aborted records) is skipped for good."""
    taken = Taken([], [])
    given = 0
    for buffer in result.batches:
        view = memoryview(buffer)
        for position, size in batches_in(buffer):
            header = read_header(buffer, position)
            first, last = header.base_offset, header.last_offset
            if given >= wish.records_max or (committed_only and first >= result.stable):
                return taken
            if _is_void(header, result, committed_only):
                cursor.skip(first, last)
                continue
            room = wish.records_max - given if wish.is_strict else limits.leases_max
            leased = cursor.lease(wish.owner, first, last, room, limits, now_ms)
            if leased:
                _add(taken.leased, leased, wish.stretch)
                taken.batches.append(view[position : position + size])
                given = taken.records
    return taken


def hold_from(cursor: Cursor, result: ReadResult, room: int, deliveries_max: int, until: int | None) -> list[Leased]:
    """Give out what is free and committed in these batches, below an offset; what never counts is skipped for good."""
    given: list[Leased] = []
    for buffer in result.batches:
        for position, _ in batches_in(buffer):
            header = read_header(buffer, position)
            first, last = header.base_offset, header.last_offset
            if until is not None:
                last = min(last, until - 1)
            if room <= 0 or first > last or header.base_offset >= result.stable:
                return given
            if _is_void(header, result, committed_only=True):
                cursor.skip(first, last)
                continue
            more = cursor.hold(first, last, room, deliveries_max)
            room -= sum(end - begin + 1 for begin, end, _ in more)
            if more:
                _add(given, more, RECORDS_IN_STRETCH_MAX)
    return given


def _add(leased: list[Leased], more: list[Leased], stretch: int) -> None:
    before, after = leased[-1] if leased else None, more[0]
    is_next = before is not None and (before.last + 1, before.deliveries) == (after.first, after.deliveries)
    if before is not None and is_next and before.last - before.first + 1 < stretch:
        leased[-1] = before._replace(last=after.last)
        more = more[1:]
    leased.extend(more)


class Available(NamedTuple):
    """How much of a log there is from where somebody would go on."""

    size: int
    """Bytes of the batches, whoever works on their records."""
    end: int
    """Up to where was looked."""


def measure(cursor: Cursor, result: ReadResult, committed_only: bool) -> Available:
    """Without leasing anything."""
    size = 0
    for buffer in result.batches:
        for position, length in batches_in(buffer):
            header = read_header(buffer, position)
            if committed_only and header.base_offset >= result.stable:
                return Available(size, header.base_offset)
            if _is_void(header, result, committed_only):
                cursor.skip(header.base_offset, header.last_offset)
            else:
                size += length
    return Available(size, result.next_offset)


def _is_void(header: BatchHeader, result: ReadResult, committed_only: bool) -> bool:
    if header.is_control or not header.record_count:
        return True
    if not (committed_only and header.is_transactional):
        return False
    return any(
        aborted.producer == header.producer_id and aborted.first <= header.base_offset <= aborted.last
        for aborted in result.aborted
    )
