"""Connections that serve no client yet: how many there may be, and for how long."""

from __future__ import annotations

from mainstem.transport.tls_layer import Newcomer


class Handshakes:
    """Those of one listener."""

    def __init__(self, most: int, timeout_ms: int) -> None:
        self._most = most
        self._timeout_s = timeout_ms / 1000
        self._under_way: dict[Newcomer, float] = {}
        """With the time when each began, the oldest first."""

    def __len__(self) -> int:
        return len(self._under_way)

    def begin(self, newcomer: Newcomer, now: float) -> bool:
        """Whether there is room for one more."""
        if len(self._under_way) >= self._most:
            return False
        self._under_way[newcomer] = now
        return True

    def end(self, newcomer: Newcomer) -> None:
        """It serves a client, or is gone."""
        self._under_way.pop(newcomer, None)

    def time_passed(self, now: float) -> None:
        """Give up those that take too long."""
        for newcomer, began in list(self._under_way.items()):
            if now - began < self._timeout_s:
                break
            newcomer.give_up(f"the handshake took longer than {round(self._timeout_s * 1000)} ms")

    def give_up(self) -> None:
        """All of them: nothing was promised to their clients."""
        for newcomer in list(self._under_way):
            newcomer.give_up("")
