"""What an engine needs of the world around it, passed in so that every failure can be replayed from a seed."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")

Done = Callable[[T | None, BaseException | None], None]
"""Called on the engine's thread with the job's value or its error."""


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Never call it; without effect once called."""


class Runtime(Protocol):
    """Clock, turn taking and the lanes in which blocking work is done."""

    @property
    def loop(self) -> AbstractEventLoop | None:
        """The event loop whose thread is the engine's, if there is one."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since 1970 UTC."""

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""

    def call_soon(self, function: Callable[[], None]) -> None:
        """Run on the engine's thread, after what is running now."""

    def call_later(self, seconds: float, function: Callable[[], None]) -> Timer:
        """Run on the engine's thread, when the time has passed."""

    def write(self, job: Callable[[], T], done: Done[T]) -> None:
        """The commit thread: one job at a time, in order."""

    def read(self, job: Callable[[], T], done: Done[T]) -> None:
        """The reading threads: several at a time, in no order."""

    def read_ahead(self, job: Callable[[], T], done: Done[T]) -> None:
        """For reads that nobody waits for yet: as the reading threads, but they stand before no read that somebody waits for."""

    def merge(self, job: bytes, done: Done[bytes]) -> None:
        """The merge worker: an encoded merge job, done by another process; answers the encoded outcome."""

    def abandon_merge(self) -> None:
        """Have a merge under way fail at once."""
