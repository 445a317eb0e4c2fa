"""The real world of an engine: an asyncio loop, one commit thread, a few reading threads, one merge process."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, TypeVar

from mainstem.storage.local.merge_process import MergeProcess
from mainstem.storage.runtime import Done, Timer

T = TypeVar("T")

READ_THREADS = 4

_Task = tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]


class AsyncRuntime:
    """Lanes beside an event loop. Jobs run in threads; their `done` runs in the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._writes: SimpleQueue[_Task | None] = SimpleQueue()
        self._writer = threading.Thread(target=self._run_writes, name="mainstem-commit", daemon=True)
        self._writer.start()
        self._readers = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="mainstem-read")
        self._mergers = ThreadPoolExecutor(1, thread_name_prefix="mainstem-merge")
        self._merge_process = MergeProcess()

    def now_ms(self) -> int:
        """Wall clock."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """The loop's clock."""
        return time.monotonic()

    def call_soon(self, function: Callable[[], None]) -> None:
        """Next turn of the loop."""
        self._loop.call_soon(function)

    def call_later(self, seconds: float, function: Callable[[], None]) -> Timer:
        """The loop's timer."""
        return self._loop.call_later(seconds, function)

    def write(self, job: Callable[[], T], done: Done[T]) -> None:
        """One thread, in order."""
        self._writes.put((job, done))

    def _run_writes(self) -> None:
        while (task := self._writes.get()) is not None:
            job, done = task
            value, error = None, None
            try:
                value = job()
            except BaseException as caught:  # noqa: BLE001 - it is the engine's to judge
                error = caught
            self._deliver(done, value, error)

    def read(self, job: Callable[[], T], done: Done[T]) -> None:
        """A pool, so that no cold read stands before a commit."""
        self._readers.submit(job).add_done_callback(lambda future: self._finish(future, done))

    def merge(self, job: bytes, done: Done[bytes]) -> None:
        """A child process, talked to from a thread of its own."""
        self._mergers.submit(self._merge_process.run, job).add_done_callback(lambda future: self._finish(future, done))

    def _finish(self, future: Future[T], done: Done[T]) -> None:
        if not future.cancelled():
            error = future.exception()
            self._deliver(done, None if error else future.result(), error)

    def _deliver(self, done: Done[Any], value: object, error: BaseException | None) -> None:
        # A loop that has closed meanwhile has nobody left to tell.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(done, value, error)

    def close(self) -> None:
        """End threads and child; what they were doing is not waited for beyond the current job."""
        self._writes.put(None)
        self._merge_process.close()
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._mergers.shutdown(wait=False, cancel_futures=True)
        self._writer.join(timeout=5)
