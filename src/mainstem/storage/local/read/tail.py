"""Groups that have become durable: their batches are shown to readers, and kept in a cache that saves reading them.

A place is one number, generation << 32 | position, so that places of one log ascend and a stretch of merged ones is cut off by
bisection.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from mainstem.storage.contract import Buffer
from mainstem.storage.sequencer.log_tail import Arrivals, LogTail

try:
    import cython
except ImportError:
    from mainstem.compiled import Uncompiled as cython  # noqa: N813
if not cython.compiled:
    # C functions of tail.pxd and log_state.pxd
    prefetch_state: Any = None
    keep_row = prefetch_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from mainstem.storage.local.frame import DataHead
    from mainstem.storage.sequencer.commit_group import DataEntry
    from mainstem.storage.sequencer.log_state import LogState

POSITION_BITS = 32
POSITION_MASK = (1 << POSITION_BITS) - 1
ASKED_AHEAD = 8
"""The processor is asked for the memory of a log this number of batches before its turn."""


def place_of(generation: int, position: int) -> int:
    """Where in which file."""
    return generation << POSITION_BITS | position


def show_entries(arrivals: Arrivals, entries: list[DataEntry], place: int, note: Callable[[LogState], None]) -> None:
    """Append the batches of a group, which lie side by side from `place` on, to the tails of their logs."""
    count = len(entries)
    for index in range(count):
        if cython.compiled and index + ASKED_AHEAD < count:
            prefetch_state(entries, index + ASKED_AHEAD)
        base, time, size, records, _, _, log_state, _ = entries[index]
        state = log_state
        if cython.compiled:
            keep_row(arrivals, state, base, place, size, time)
        else:
            # To gather rows later costs Python more than to append each at once.
            if state.own_tail is None:
                state.own_tail = LogTail()
            state.own_tail.append(base, place, size, time)
        place += size
        state.end = base + records
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

    __slots__ = ("_buffers", "_bytes", "_bytes_max", "_costs", "_gone_max", "_head", "_places")

    def __init__(self, bytes_max: int, gone_max: int) -> None:
        self._places: list[int] = []
        self._buffers: list[Buffer] = []
        self._costs: list[int] = []
        self._head = 0
        """Entries before it have gone."""
        self._bytes = 0
        self._bytes_max = bytes_max
        self._gone_max = gone_max
        """Entries that may be gone before the lists are cut."""

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
        if self._head > self._gone_max and self._head * 2 > len(self._places):
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
