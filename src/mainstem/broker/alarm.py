"""One timer for many deadlines."""

from __future__ import annotations

from collections.abc import Callable

from mainstem.broker.clock import Clock, Timer


class Alarm:
    """Rings at the earliest deadline it was given. The callback looks for what is due, and gives the next deadline.

    Deadlines mostly move back, with every heartbeat: that costs nothing here, only a ring at which nothing is due.
    """

    __slots__ = ("_clock", "_due_ms", "_ring", "_timer")

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._timer: Timer | None = None
        self._due_ms = 0

    def set(self, due_ms: int | None) -> None:
        """Ring at this time of the monotonic clock, at the latest."""
        if due_ms is None or (self._timer is not None and self._due_ms <= due_ms):
            return
        self.cancel()
        self._due_ms = due_ms
        # One millisecond more: timers may come early by the rounding of clocks.
        self._timer = self._clock.call_later((due_ms - self._clock.monotonic() * 1000) / 1000 + 0.001, self._rings)

    def cancel(self) -> None:
        """Do not ring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rings(self) -> None:
        self._timer = None
        self._ring()
