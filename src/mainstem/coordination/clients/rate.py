"""How fast something goes, measured as Kafka measures its quotas: so that a limit means the same here.

Times are seconds of a clock that never goes back, passed in.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

WINDOWS = 11
WINDOW_S = 1.0
"""Kafka's quota.window.num and quota.window.size.seconds."""
SPAN_S = WINDOWS * WINDOW_S
FULL_WINDOWS = WINDOWS - 1
"""This number is counted as if it had passed, also at the beginning: a burst is measured against ten seconds."""


class Pace(NamedTuple):
    """What went through, in how much time."""

    amount: float
    seconds: float

    def excess_s(self, limit: float) -> float:
        """How long nothing more may come until the limit is kept again; 0 if it is."""
        rate = self.amount / self.seconds
        return (rate - limit) / limit * self.seconds if rate > limit else 0.0


class WindowedRate:
    """Amounts of the last ten seconds and the current one."""

    __slots__ = ("_windows",)

    def __init__(self) -> None:
        self._windows: deque[tuple[float, float]] = deque()

    def record(self, amount: float, now: float) -> None:
        """So much went through; less than nothing takes back what was recorded before."""
        windows = self._windows
        if windows and now - windows[-1][0] < WINDOW_S:
            start, before = windows[-1]
            windows[-1] = (start, before + amount)
        else:
            windows.append((now, amount))
            self._forget(now)

    def pace(self, now: float) -> Pace:
        """The recent rate."""
        self._forget(now)
        windows = self._windows
        if not windows:
            return Pace(0.0, FULL_WINDOWS * WINDOW_S)
        elapsed = now - windows[0][0]
        missing = FULL_WINDOWS - int(elapsed / WINDOW_S)
        return Pace(sum(amount for _, amount in windows), elapsed + max(missing, 0) * WINDOW_S)

    def is_silent(self, now: float) -> bool:
        """Whether nothing is remembered any more."""
        self._forget(now)
        return not self._windows

    def _forget(self, now: float) -> None:
        windows = self._windows
        while windows and windows[0][0] <= now - SPAN_S:
            windows.popleft()


class TokenBucket:
    """Tokens that come at a rate, and are saved up for one span. May be overdrawn once, then waits until it is not."""

    __slots__ = ("_filled_at", "_tokens")

    def __init__(self, rate: float, now: float) -> None:
        self._tokens = rate * SPAN_S
        self._filled_at = now

    def overdrawn_s(self, rate: float, now: float) -> float:
        """How long it takes until nothing is owed; 0 if nothing is."""
        self._fill(rate, now)
        return max(-self._tokens / rate, 0.0)

    def take(self, tokens: float, rate: float, now: float) -> None:
        """Take them, whether they are there or not."""
        self._fill(rate, now)
        self._tokens -= tokens

    def is_full(self, rate: float, now: float) -> bool:
        """Whether it need not be remembered."""
        self._fill(rate, now)
        return self._tokens >= rate * SPAN_S

    def _fill(self, rate: float, now: float) -> None:
        self._tokens = min(rate * SPAN_S, self._tokens + (now - self._filled_at) * rate)
        self._filled_at = now
