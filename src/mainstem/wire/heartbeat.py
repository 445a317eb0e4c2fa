"""Heartbeats: to a peer that hears nothing we speak every half interval; one that is silent for two in a row is gone.

As RabbitMQ does, we look once per interval whether anything came. So a peer has between two and three of them.
"""

from __future__ import annotations

_TOLERANCE = 0.1
"""Timers are late: by so much of the time between two looks, a heartbeat may come later than it should."""


class Heartbeat:
    """Counted from the events of a session, which has no clock of its own."""

    def __init__(self) -> None:
        self.interval_s = 0
        """As negotiated; 0: none."""
        self.heard = True
        """Set when bytes come; a session that does not want any leaves it set."""
        self.spoke = True
        """Set when bytes are sent."""
        self._looked_at: float | None = None
        self._missed = 0
        self._spoke_at = 0.0
        self._asked_at: float | None = None

    def is_lost(self, now: float) -> bool:
        """Whether the peer was silent for too long."""
        if self._looked_at is None or not self.interval_s:
            self._looked_at = now
        elif now - self._looked_at >= self.interval_s:
            self._looked_at = now
            self._missed = 0 if self.heard else self._missed + 1
            self.heard = False
        return self._missed >= 2

    def is_due(self, now: float) -> bool:
        """Whether it is our turn to say something: half an interval has passed, or will have before we look again."""
        looked_at, self._asked_at = self._asked_at, now
        if self.spoke or looked_at is None:
            self.spoke = False
            self._spoke_at = now if looked_at is None else looked_at  # at the earliest
        if not self.interval_s:
            return False
        pause = 0.0 if looked_at is None else (now - looked_at) * (1 - _TOLERANCE)
        return now - self._spoke_at + pause > self.interval_s / 2
