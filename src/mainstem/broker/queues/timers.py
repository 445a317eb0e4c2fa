"""What happens to queues by the passing of time: heads expire, rests end, queues that nobody uses go, floors move.

One heap for all queues, and one timer for its first entry: a queue at rest costs nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from mainstem.broker.clock import Clock, Timer


class Timers:
    """Calls that are due at a time of the wall clock, each named; one that is asked for again moves to the earlier time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, object]] = []
        self._due: dict[object, tuple[int, Callable[[], None]]] = {}
        self._count = 0
        self._timer: Timer | None = None
        self._timer_ms = 0

    def at(self, due_ms: int, name: object, call: Callable[[], None]) -> None:
        """Call then, or a little later; earlier if it was asked for earlier."""
        known = self._due.get(name)
        if known is not None and known[0] <= due_ms:
            return
        self._due[name] = (due_ms, call)
        self._count += 1
        heapq.heappush(self._heap, (due_ms, self._count, name))
        self._arm()

    def forget(self, name: object) -> None:
        """Do not call."""
        self._due.pop(name, None)

    def _arm(self) -> None:
        if not self._heap:
            return
        due_ms = self._heap[0][0]
        if self._timer is not None:
            if self._timer_ms <= due_ms:
                return
            self._timer.cancel()
        self._timer_ms = due_ms
        self._timer = self._clock.call_later(max(due_ms - self._clock.now_ms(), 0) / 1000 + 0.001, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now_ms = self._clock.now_ms()
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            due_ms, _, name = heapq.heappop(heap)
            known = self._due.get(name)
            if known is not None and known[0] == due_ms:
                del self._due[name]
                known[1]()
        self._arm()

    def close(self) -> None:
        """Call nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._heap.clear()
        self._due.clear()
