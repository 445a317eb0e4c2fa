"""Threads that wait for the shared store, so that neither reads nor the local disk wait with them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from mainstem.storage.runtime.async_runtime import WorkerThreads
from mainstem.storage.runtime.runtime import Done

T = TypeVar("T")


class Lanes(Protocol):
    """Each runs blocking jobs, and reports on the engine's thread."""

    def append(self, job: Callable[[], T], done: Done[T]) -> None:
        """Groups into the catalog: one at a time, in order."""

    def upload(self, job: Callable[[], T], done: Done[T]) -> None:
        """Groups into the object store: several at a time."""

    def renew(self, job: Callable[[], T], done: Done[T]) -> None:
        """The lease, which waits for nothing else."""

    def upkeep(self, job: Callable[[], T], done: Done[T]) -> None:
        """What nobody waits for."""


class SharedThreads:
    """Lanes beside an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, uploads_max: int) -> None:
        self._append = WorkerThreads(loop, "mainstem-append", 1)
        self._upload = WorkerThreads(loop, "mainstem-upload", uploads_max)
        self._renew = WorkerThreads(loop, "mainstem-renew", 1)
        self._upkeep = WorkerThreads(loop, "mainstem-upkeep", 1)

    def append(self, job: Callable[[], T], done: Done[T]) -> None:
        """One thread."""
        self._append.put(job, done)

    def upload(self, job: Callable[[], T], done: Done[T]) -> None:
        """As many as may be under way."""
        self._upload.put(job, done)

    def renew(self, job: Callable[[], T], done: Done[T]) -> None:
        """One thread."""
        self._renew.put(job, done)

    def upkeep(self, job: Callable[[], T], done: Done[T]) -> None:
        """One thread."""
        self._upkeep.put(job, done)

    def close(self) -> None:
        """What hangs is not waited for: the threads end with the process."""
        for threads in (self._append, self._upload, self._renew, self._upkeep):
            threads.close(wait_seconds=0.2)
