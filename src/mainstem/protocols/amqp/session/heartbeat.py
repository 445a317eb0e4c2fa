"""Heartbeats: a peer that says nothing for two intervals is gone; to one that hears nothing we speak every half interval."""

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
        self._heard_at: float | None = None
        self._spoke_at = 0.0

    def is_lost(self, now: float) -> bool:
        """Whether the peer was silent for too long."""
        if self.heard or self._heard_at is None:
            self.heard = False
            self._heard_at = now
        return bool(self.interval_s) and now - self._heard_at > 2 * self.interval_s

    def is_due(self, now: float) -> bool:
        """Whether it is our turn to say something."""
        if self.spoke:
            self.spoke = False
            self._spoke_at = now
        return bool(self.interval_s) and now - self._spoke_at >= self.interval_s / 2
