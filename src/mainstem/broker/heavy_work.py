"""Work that would hold the event loop up, such as opening a large batch: a thread does it, one piece after the other.

One thread: what is opened at the same time is bounded by what one piece of work may take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

R = TypeVar("R")

THREADS = 1


class HeavyWork:
    """The thread, which begins with the first piece of work."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    def run(self, job: Callable[[], R]) -> asyncio.Future[R]:
        """Do it after all that was asked for before."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, "heavy-work")
        return asyncio.get_running_loop().run_in_executor(self._pool, job)

    def close(self) -> None:
        """Begin nothing more."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
