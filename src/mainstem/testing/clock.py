"""A clock that stands still until it is moved."""

from __future__ import annotations

EPOCH_MS = 1_700_000_000_000


class SimulatedClock:
    """Wall clock and monotonic clock in one; only `advance` moves them."""

    __slots__ = ("_elapsed_ms", "_start_ms")

    def __init__(self, start_ms: int = EPOCH_MS) -> None:
        self._start_ms = start_ms
        self._elapsed_ms = 0.0

    def now_ms(self) -> int:
        """Milliseconds since 1970 UTC."""
        return self._start_ms + int(self._elapsed_ms)

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._elapsed_ms / 1000

    def advance(self, milliseconds: float) -> None:
        """Let time pass."""
        assert milliseconds >= 0, "time does not go back"
        self._elapsed_ms += milliseconds
