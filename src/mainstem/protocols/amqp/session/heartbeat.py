"""Heartbeats: to a peer that hears nothing we speak every half interval; one that is silent for two in a row is gone.

As RabbitMQ does, we look once per interval whether anything came. So a peer has between two and three of them.
"""

from __future__ import annotations


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
        """Whether it is our turn to say something."""
        if self.spoke:
            self.spoke = False
            self._spoke_at = now
        return bool(self.interval_s) and now - self._spoke_at >= self.interval_s / 2
