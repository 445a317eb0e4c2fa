"""The real world of an engine: an asyncio loop, one commit thread, a few reading threads, one that waits for merges."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from mainstem.storage.runtime.commit_thread import AVAILABLE, CommitThread
from mainstem.storage.runtime.runtime import Done, Timer

T = TypeVar("T")

READ_THREADS = 4
READ_AHEAD_THREADS = max(2, min(4, os.cpu_count() or 1))
"""More than there are processors would take turns on them: with twice as many, history is read a quarter slower."""

_Task = tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]


class WorkerThreads:
    """Threads that take jobs in their order; what a job gave goes back to the loop. Cheaper per job than an executor.

    Of those at rest, the one that worked last goes on: its processor and its memory are at hand. From a common queue two jobs at
    a time would wake four threads in turns, and catch-up reads take a third longer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str, threads: int) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._jobs: deque[_Task | None] = deque()
        """What no thread was free for."""
        self._resting: list[_Worker] = []
        self._threads = [
            threading.Thread(target=self._run, args=(_Worker(),), name=f"{name}-{n}", daemon=True)
            for n in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, job: Callable[[], T], done: Done[T]) -> None:
        """Do a job in one of the threads."""
        self._hand_over((job, done))

    def _hand_over(self, task: _Task | None) -> None:
        with self._lock:
            if not self._resting:
                self._jobs.append(task)
                return
            worker = self._resting.pop()
        worker.task = task
        worker.awake.release()

    def _next(self, worker: _Worker) -> _Task | None:
        with self._lock:
            if self._jobs:
                return self._jobs.popleft()
            self._resting.append(worker)
        worker.awake.acquire()
        task, worker.task = worker.task, None
        return task

    def _run(self, worker: _Worker) -> None:
        while (task := self._next(worker)) is not None:
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
            self._hand_over(None)
        for thread in self._threads:
            thread.join(wait_seconds)


class _Worker:
    """One thread of a lane, and what it is woken for."""

    __slots__ = ("awake", "task")

    def __init__(self) -> None:
        self.task: _Task | None = None
        self.awake = threading.Lock()
        self.awake.acquire()


class MergeWorker(Protocol):
    """Does merge jobs, one at a time, away from the interpreter of the broker."""

    def run(self, job: bytes) -> bytes:
        """Do an encoded job; answers its encoded outcome. Called from a thread."""

    def abandon(self) -> None:
        """Have the job under way fail at once."""

    def close(self) -> None:
        """End; what is under way fails."""


class AsyncRuntime:
    """Threads beside an event loop. Jobs run in threads; their `done` runs in the loop.

    An engine that merges gives the worker that does it; see `storage.local.runtime`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, merge_worker: MergeWorker | None = None) -> None:
        self.loop = loop
        self._writes = CommitThread(loop, "mainstem-commit") if AVAILABLE else WorkerThreads(loop, "mainstem-commit", 1)
        self._reads = WorkerThreads(loop, "mainstem-read", READ_THREADS)
        self._reads_ahead = WorkerThreads(loop, "mainstem-read-ahead", READ_AHEAD_THREADS)
        self._merges = WorkerThreads(loop, "mainstem-merge", 1)
        self._merge_worker = merge_worker
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

    def read_ahead(self, job: Callable[[], T], done: Done[T]) -> None:
        """Threads of their own, as many as there are processors."""
        self._reads_ahead.put(job, done)

    def merge(self, job: bytes, done: Done[bytes]) -> None:
        """The worker, called from a thread of its own."""
        assert self._merge_worker is not None, "this engine was not said to merge"
        worker = self._merge_worker
        self._merges.put(lambda: worker.run(job), done)

    def abandon_merge(self) -> None:
        """Have a merge under way fail at once; what it has written is removed at the next start."""
        if self._merge_worker is not None:
            self._merge_worker.abandon()

    def close(self) -> None:
        """End worker and threads; what they are doing is not waited for long."""
        if self._merge_worker is not None:
            self._merge_worker.close()
        self._writes.close(wait_seconds=5)
        self._reads.close(wait_seconds=1)
        self._reads_ahead.close(wait_seconds=1)
        self._merges.close(wait_seconds=1)
