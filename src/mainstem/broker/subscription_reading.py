"""From what was read of a log to what is leased of it: whole batches, and which of their records count."""

from __future__ import annotations

from typing import NamedTuple

from mainstem.coordination.subscription import Cursor, Leased, Limits
from mainstem.storage.contract import Buffer, ReadResult
from mainstem.wire.record_batch import BatchHeader, batches_in, read_header


class Wish(NamedTuple):
    """How much somebody wants of one log."""

    owner: str
    records_max: int
    bytes_max: int
    is_strict: bool = False
    """No record more; otherwise a batch that is begun is given whole."""


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
                taken.leased.extend(leased)
                taken.batches.append(view[position : position + size])
                given = taken.records
    return taken


def _is_void(header: BatchHeader, result: ReadResult, committed_only: bool) -> bool:
    if header.is_control or not header.record_count:
        return True
    if not (committed_only and header.is_transactional):
        return False
    return any(
        aborted.producer == header.producer_id and aborted.first <= header.base_offset <= aborted.last
        for aborted in result.aborted
    )
