"""The newest batches of each log: where they lie in the write-ahead log, and the cache that saves reading them.

A place is one number, generation << 32 | position, so that places of one log ascend and a stretch of merged ones is cut off by
bisection.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING

from mainstem.storage.contract import Buffer

try:
    import cython
except ImportError:
    from mainstem.compiled import Uncompiled as cython  # noqa: N813
if not cython.compiled:
    from mainstem.wire.bytes_at import append_row, number_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from mainstem.storage.local.frame import DataHead
    from mainstem.storage.log_state import LogState
    from mainstem.storage.pending_group import DataEntry

POSITION_BITS = 32
POSITION_MASK = (1 << POSITION_BITS) - 1
ROW = 4
"""Numbers of a batch in a tail."""
BASE, PLACE, SIZE = 0, 1, 2
CACHE_GONE_MAX = 1024
"""Entries that may be gone before the lists are cut."""


def place_of(generation: int, position: int) -> int:
    """Where in which file."""
    return generation << POSITION_BITS | position


class LogTail:
    """Batches of one log that are not merged yet: numbers in one array, because there may be millions.

    Row by row rather than column by column: to append to one of ten thousand logs touches fewer lines of the processor's cache.
    """

    __slots__ = ("refs", "rows")

    def __init__(self) -> None:
        self.rows = array("q")
        """Of each batch its base offset, its place, its size and its time."""
        self.refs: set[int] | None = None
        """Base offsets of entries that are references: their bytes carry another log's base offset."""

    def __len__(self) -> int:
        return len(self.rows) // ROW

    def append(self, base: int, place: int, size: int, time: int) -> None:
        """Add the next batch."""
        append_row(self.rows, base, place, size, time)

    def append_ref(self, base: int, place: int, size: int, time: int) -> None:
        """Add a batch whose bytes are another log's."""
        self.append(base, place, size, time)
        if self.refs is None:
            self.refs = set()
        self.refs.add(base)

    @property
    def first(self) -> int:
        """The base offset of the first batch; there is one."""
        return number_at(self.rows, 0)

    def row(self, index: int) -> tuple[int, int, int, int]:
        """Base offset, place, size and time of one batch."""
        rows, at = self.rows, index * ROW
        return number_at(rows, at), number_at(rows, at + 1), number_at(rows, at + 2), number_at(rows, at + 3)

    def index_of(self, offset: int) -> int:
        """Index of the batch that contains the offset, given that it is not below the first."""
        return self._count_up_to(BASE, offset) - 1

    def side_by_side(self, index: int, limit: int) -> tuple[int, int]:
        """Of the batches from one on that lie one after the other in a file, and none behind a place: the end, and the next."""
        rows, refs = self.rows, self.refs
        at, stop = index * ROW, len(rows)
        end = number_at(rows, at + PLACE)
        while at < stop and number_at(rows, at + PLACE) == end and end + number_at(rows, at + SIZE) <= limit:
            if refs is not None and number_at(rows, at) in refs:
                break
            end += number_at(rows, at + SIZE)
            at += ROW
        return end, at // ROW

    def bytes_from(self, index: int) -> int:
        """The size of all batches from one on."""
        return sum(self.rows[index * ROW + SIZE :: ROW])

    def drop_before(self, place: int) -> None:
        """Forget batches that lie before a place."""
        count = self._count_up_to(PLACE, place - 1)
        if count:
            if self.refs is not None:
                self.refs.difference_update(self.rows[: count * ROW : ROW])
                self.refs = self.refs or None
            del self.rows[: count * ROW]

    def _count_up_to(self, column: int, value: int) -> int:
        """How many rows there are up to a value of a column that ascends."""
        rows = self.rows
        low, high = 0, len(rows) // ROW
        while low < high:
            middle = (low + high) // 2
            if number_at(rows, middle * ROW + column) <= value:
                low = middle + 1
            else:
                high = middle
        return low


if not cython.compiled:

    def keep_row(state: LogState, base: int, place: int, size: int, time: int) -> None:
        """Have the next batch of a log in its tail."""
        state.own_tail.append(base, place, size, time)  # type: ignore[union-attr]


def show_entries(entries: list[DataEntry], place: int, note: Callable[[LogState], None]) -> None:
    """Append the batches of a group, which lie side by side from `place` on, to the tails of their logs."""
    for entry in entries:
        _, base, time, size, count, _, _, log_state, _ = entry
        state = log_state
        if state.own_tail is None:
            state.own_tail = LogTail()
        keep_row(state, base, place, size, time)
        place += size
        state.end = base + count
        state.bytes += size
        if state.watchers is not None:
            note(state)


def replay_places(tails: dict[int, LogTail], nexts: dict[int, int], head: DataHead, place: int) -> None:
    """What `show_entries` did, from the columns of a group that is found in a file; and where each log goes on."""
    bases, times, sizes, counts = head.bases, head.times, head.sizes, head.counts
    for index, log in enumerate(head.logs):
        found = tails.get(log)
        if found is None:
            found = tails[log] = LogTail()
        tail = found
        tail.append(bases[index], place, sizes[index], times[index])
        nexts[log] = bases[index] + counts[index]
        place += sizes[index]


class TailCache:
    """The newest bodies of groups in memory, first in, first out.

    A body is kept as it was written, with many small batches in one buffer: one entry per group, not per batch. The
    limit counts what a buffer pins, not what it shows.
    """

    __slots__ = ("_buffers", "_bytes", "_bytes_max", "_costs", "_head", "_places")

    def __init__(self, bytes_max: int) -> None:
        self._places: list[int] = []
        self._buffers: list[Buffer] = []
        self._costs: list[int] = []
        self._head = 0
        """Entries before it have gone."""
        self._bytes = 0
        self._bytes_max = bytes_max

    def put(self, place: int, buffer: Buffer) -> None:
        """Keep what was written at a place above all others, and let older ones go."""
        cost = len(buffer.obj) if type(buffer) is memoryview else len(buffer)  # type: ignore[arg-type]
        self._places.append(place)
        self._buffers.append(buffer)
        self._costs.append(cost)
        self._bytes += cost
        while self._bytes > self._bytes_max:
            head = self._head
            self._bytes -= self._costs[head]
            self._buffers[head] = b""
            self._head = head + 1
        if self._head > CACHE_GONE_MAX and self._head * 2 > len(self._places):
            del self._places[: self._head], self._buffers[: self._head], self._costs[: self._head]
            self._head = 0

    def find(self, place: int) -> tuple[int, Buffer] | None:
        """Where the buffer that holds a place begins, and the buffer; None when it is not here."""
        index = bisect_right(self._places, place, self._head) - 1
        if index < self._head:
            return None
        start, buffer = self._places[index], self._buffers[index]
        return (start, buffer) if place < start + len(buffer) else None

    @property
    def bytes(self) -> int:
        """What it pins now."""
        return self._bytes
