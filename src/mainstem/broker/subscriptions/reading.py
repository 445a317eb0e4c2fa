"""From what was read of a log to what is leased of it: whole batches, and which of their records count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mainstem.coordination.subscriptions.delivery_policy import DeliveryPolicy
from mainstem.coordination.subscriptions.leased_cursor import Leased, LeasedCursor
from mainstem.storage.contract import Buffer, ReadResult
from mainstem.wire.record_batch import BatchHeader, batches_in, read_header

RECORDS_IN_STRETCH_MAX = 1 << 62


class ReadRequest(NamedTuple):
    """How much somebody wants of one log."""

    owner: str
    records_max: int
    bytes_max: int
    is_strict: bool = False
    """No record more; otherwise a batch that is begun is given whole."""
    stretch: int = 1
    """Stretches of neighbouring batches are answered as one until they hold this number of records."""
    is_bounded: bool = False
    """Not even the first batch may be larger than `bytes_max`."""
    lease_ms: int | None = None
    """How long the owner may work on what it is given. None: as the policy says."""


class Taken(NamedTuple):
    """Batches, and the stretches of them that are leased; other records in them are somebody else's or settled."""

    batches: list[Buffer]
    leased: list[Leased]

    @property
    def records(self) -> int:
        """How many are leased."""
        return sum(last - first + 1 for first, last, _ in self.leased)


def lease_from(
    cursor: LeasedCursor,
    result: ReadResult,
    offset: int,
    wish: ReadRequest,
    policy: DeliveryPolicy,
    committed_only: bool,
    now_ms: int,
) -> Taken:
    """Lease what is free in what was read from an offset on."""
    taken = Taken([], [])
    given = 0
    for header, batch in _batches(cursor, result, offset, committed_only):
        if given >= wish.records_max or (wish.is_bounded and len(batch) > wish.bytes_max):
            break
        room = wish.records_max - given if wish.is_strict else RECORDS_IN_STRETCH_MAX
        leased = cursor.lease(wish.owner, header.base_offset, header.last_offset, room, policy, now_ms, wish.lease_ms)
        if leased:
            _add(taken.leased, leased, wish.stretch)
            taken.batches.append(batch)
            given = taken.records
    return taken


def hold_from(
    cursor: LeasedCursor, result: ReadResult, offset: int, room: int, policy: DeliveryPolicy, until: int | None
) -> list[Leased]:
    """Give out what is free and committed in what was read from an offset on, below another."""
    given: list[Leased] = []
    for header, _ in _batches(cursor, result, offset, committed_only=True):
        first, last = header.base_offset, header.last_offset
        if until is not None:
            last = min(last, until - 1)
        if room <= 0 or first > last:
            break
        more = cursor.hold(first, last, room, policy)
        room -= sum(end - begin + 1 for begin, end, _ in more)
        if more:
            _add(given, more, RECORDS_IN_STRETCH_MAX)
    return given


def _batches(
    cursor: LeasedCursor, result: ReadResult, offset: int, committed_only: bool
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches that count by now. What never will is skipped for good: markers, aborted records, gaps of compaction."""
    for buffer in result.batches:
        view = memoryview(buffer)
        for position, size in batches_in(buffer):
            header = read_header(buffer, position)
            if committed_only and header.base_offset >= result.stable:
                return
            if header.base_offset > offset:
                cursor.skip(offset, header.base_offset - 1)
            offset = header.next_offset
            if _is_void(header, result, committed_only):
                cursor.skip(header.base_offset, header.last_offset)
            else:
                yield header, view[position : position + size]
    end = _end(result, committed_only)
    if end > offset:
        cursor.skip(offset, end - 1)


def _end(result: ReadResult, committed_only: bool) -> int:
    """Behind what was read and counts by now."""
    return min(result.next_offset, result.stable) if committed_only else result.next_offset


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
    """Bytes of the batches, whether or not their records are held."""
    end: int
    """Up to where was looked."""


def measure(cursor: LeasedCursor, result: ReadResult, offset: int, committed_only: bool) -> Available:
    """Without leasing anything."""
    size = sum(len(batch) for _, batch in _batches(cursor, result, offset, committed_only))
    return Available(size, _end(result, committed_only))


def _is_void(header: BatchHeader, result: ReadResult, committed_only: bool) -> bool:
    if header.is_control or not header.record_count:
        return True
    if not (committed_only and header.is_transactional):
        return False
    return any(
        aborted.producer == header.producer_id and aborted.first <= header.base_offset <= aborted.last
        for aborted in result.aborted
    )
