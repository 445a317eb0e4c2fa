"""The real world of an engine: an asyncio loop, one commit thread, a few reading threads, one merge process."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from mainstem.storage.local.merge_process import MergeProcess
from mainstem.storage.native_lane import AVAILABLE, NativeLane
from mainstem.storage.runtime import Done, Timer

T = TypeVar("T")

READ_THREADS = 4

_Task = tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]


class Lane:
    """Threads that take jobs from one queue; what a job gave goes back to the loop. Cheaper per job than an executor."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str, threads: int) -> None:
        self._loop = loop
        self._jobs: SimpleQueue[_Task | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._run, name=f"{name}-{n}", daemon=True) for n in range(threads)]
        for thread in self._threads:
            thread.start()

    def put(self, job: Callable[[], T], done: Done[T]) -> None:
        """Do a job in one of the threads."""
        self._jobs.put((job, done))

    def _run(self) -> None:
        while (task := self._jobs.get()) is not None:
            job, done = task
            value, error = None, None
            try:
                value = job()
            except BaseException as caught:  # noqa: BLE001 - it is the engine's to judge
                error = caught
            # A loop that has closed meanwhile has nobody left to tell.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(done, value, error)
            # A thread that waits for its next job must not keep what the last one held.
            del task, job, done, value, error

    def close(self, wait_seconds: float = 0.0) -> None:
        """End the threads once they have done what was put before."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join(wait_seconds)


class AsyncRuntime:
    """Lanes beside an event loop. Jobs run in threads; their `done` runs in the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._writes = NativeLane(loop, "mainstem-commit") if AVAILABLE else Lane(loop, "mainstem-commit", 1)
        self._reads = Lane(loop, "mainstem-read", READ_THREADS)
        self._merges = Lane(loop, "mainstem-merge", 1)
        self._merge_process = MergeProcess()
        # Called several times per group: as they are, without a method of ours around them.
        self.monotonic = time.monotonic
        """The loop's clock."""
        self.write: Callable[[Callable[[], Any], Done[Any]], None] = self._writes.put
        """One thread, in order."""

    def now_ms(self) -> int:
        """Wall clock."""
        return time.time_ns() // 1_000_000

    def call_soon(self, function: Callable[[], None]) -> None:
        """Next turn of the loop."""
        self.loop.call_soon(function)

    def call_later(self, seconds: float, function: Callable[[], None]) -> Timer:
        """The loop's timer."""
        return self.loop.call_later(seconds, function)

    def read(self, job: Callable[[], T], done: Done[T]) -> None:
        """Several threads, so that no cold read stands before a commit."""
        self._reads.put(job, done)

    def merge(self, job: bytes, done: Done[bytes]) -> None:
        """A child process, talked to from a thread of its own."""
        self._merges.put(lambda: self._merge_process.run(job), done)

    def close(self) -> None:
        """End child and threads; what they are doing is not waited for long."""
        self._merge_process.close()
        self._writes.close(wait_seconds=5)
        self._reads.close(wait_seconds=1)
        self._merges.close(wait_seconds=1)
