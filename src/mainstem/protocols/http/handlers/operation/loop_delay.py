"""How long the event loop keeps others waiting: a timer that is due often, and how late it comes."""

from __future__ import annotations

from mainstem.broker.clock import Clock

INTERVAL_S = 0.1
WINDOW_S = 30.0
"""`recent_s` covers the last one to two of these."""


class LoopDelay:
    """Measures from its making on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.max_s = 0.0
        self._window_s = 0.0
        self._last_window_s = 0.0
        self._due = self._window_end = clock.monotonic()
        self._window_end += WINDOW_S
        self._arm()

    @property
    def recent_s(self) -> float:
        """The longest recently."""
        return max(self._window_s, self._last_window_s)

    def _arm(self) -> None:
        self._due = self._clock.monotonic() + INTERVAL_S
        self._clock.call_later(INTERVAL_S, self._beat)

    def _beat(self) -> None:
        now = self._clock.monotonic()
        late_s = max(0.0, now - self._due)
        if now >= self._window_end:
            self._last_window_s, self._window_s = self._window_s, 0.0
            self._window_end = now + WINDOW_S
        self._window_s = max(self._window_s, late_s)
        self.max_s = max(self.max_s, late_s)
        self._arm()
