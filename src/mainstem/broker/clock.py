"""Time, passed in so that it can stand still in tests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Never call it; without effect once called."""


class Clock(Protocol):
    """What the broker knows of time. A storage runtime is one too."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since 1970 UTC."""

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""

    def call_soon(self, function: Callable[[], None]) -> object:
        """Run on the broker's thread, after what is running now."""

    def call_later(self, seconds: float, function: Callable[[], None]) -> Timer:
        """Run on the broker's thread, when the time has passed."""


class LoopClock:
    """The clock of the running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def now_ms(self) -> int:
        """Wall clock."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Now; the loop's own clock stands still while a callback runs."""
        return time.monotonic()

    def call_soon(self, function: Callable[[], None]) -> object:
        """The loop's next turn."""
        return self._loop.call_soon(function)

    def call_later(self, seconds: float, function: Callable[[], None]) -> Timer:
        """The loop's timer."""
        return self._loop.call_later(seconds, function)
