"""What is due in seconds, in memory and in order."""

from __future__ import annotations

import heapq
from typing import NamedTuple

from mainstem.coordination.schedules.schedule import Bucket

WINDOW_BYTES_MAX = 64 << 20
"""Of records in memory. A bucket that does not fit is read from the log when its time has come."""
ENTRY_BYTES = 300
"""What a record costs besides its bytes, about."""


class Waiting(NamedTuple):
    """A record that waits; sorted by the time at which it is due, then by age."""

    due_ms: int
    log: int
    offset: int
    letter: bytes
    bucket: Bucket


class DueWindow:
    """Records by due time."""

    def __init__(self, bytes_max: int = WINDOW_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._heap: list[Waiting] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_due_ms(self) -> int | None:
        """When the first is due."""
        return self._heap[0].due_ms if self._heap else None

    def push(self, waiting: Waiting) -> bool:
        """Take a record in; answers whether there was room."""
        size = len(waiting.letter) + ENTRY_BYTES
        if self._bytes + size > self._bytes_max:
            return False
        self._bytes += size
        heapq.heappush(self._heap, waiting)
        return True

    def take_due(self, now_ms: int, records_max: int, bytes_max: int) -> list[Waiting]:
        """Records whose time has come, marked gone; those that are gone already are left out."""
        taken: list[Waiting] = []
        size = 0
        while self._heap and self._heap[0].due_ms <= now_ms and len(taken) < records_max and size < bytes_max:
            waiting = heapq.heappop(self._heap)
            self._bytes -= len(waiting.letter) + ENTRY_BYTES
            if waiting.offset not in waiting.bucket.gone:
                waiting.bucket.mark_gone((waiting.offset,))
                taken.append(waiting)
                size += len(waiting.letter)
        return taken
