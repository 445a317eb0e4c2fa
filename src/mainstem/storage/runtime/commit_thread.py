"""The commit thread without the interpreter: its thread waits, writes and syncs while the event loop's thread runs Python.

A thread that needs the interpreter's lock three times per group gets it when the event loop rests, or after a switch interval:
longer than the disk takes. This one takes it only for what is no plain write: a roll to the next file, a sync of its own.

Only compiled. `WorkerThreads` does the same in Python.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mainstem.model.errors import EngineFailed
from mainstem.storage.runtime.disk import LocalFile
from mainstem.storage.runtime.group_write import GroupWrite

try:
    import cython
except ImportError:
    from mainstem.compiled import Uncompiled as cython  # noqa: N813

if TYPE_CHECKING:
    import asyncio

    from mainstem.storage.runtime.runtime import Done

if not cython.compiled:
    # Compiled, these are C functions, which no import may hide. As Python they are not there, and nobody makes a CommitThread.
    if TYPE_CHECKING:
        from mainstem.native.commit_thread import (
            Job,
            job_error,
            job_finished,
            job_free,
            job_is_end,
            job_new,
            job_owner,
            job_put,
            queue_break,
            queue_finish,
            queue_free,
            queue_hear,
            queue_is_broken,
            queue_new,
            queue_serve,
        )

log_output = logging.getLogger("mainstem.storage")

AVAILABLE = bool(cython.compiled) and hasattr(os, "eventfd")
FAILED_BEFORE = -1


class NativeTask:
    """A job of the thread, and its listener."""

    if TYPE_CHECKING:
        # The job in C, where this is compiled.
        native: Job

    def __init__(self, job: Callable[[], Any], done: Done[Any]) -> None:
        self.job = job
        self.done = done
        self.value: Any = None
        self.error: BaseException | None = None


class CommitThread:
    """One thread that does jobs in order; the first that fails is the last that is done.

    After a failed write or sync nobody knows what the disk holds: what follows in the lane is answered with an error.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._closed = False
        self._tasks: deque[NativeTask] = deque()
        self._done_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._queue = queue_new(self._done_fd)
        loop.add_reader(self._done_fd, self._completed)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, job: Callable[[], Any], done: Done[Any]) -> None:
        """Do a job in the thread; `done` is called in the loop."""
        if self._closed:
            return
        task = NativeTask(job, done)
        if type(job) is GroupWrite and type(job.file) is LocalFile:
            task.native = job_new(task, job.file.fd, job.position, job.sync, list(job.parts))
        else:
            task.native = job_new(task, -1, 0, False, [])
        self._tasks.append(task)
        job_put(self._queue, task.native)

    def _run(self) -> None:
        while True:
            with cython.nogil:
                native = queue_serve(self._queue)
            if job_is_end(native):
                job_free(native)
                return
            self._do(native)
            queue_finish(self._queue, native)

    def _do(self, native: Job) -> None:
        """Do a job in Python. In a method of its own, so that a thread that waits keeps nothing of its last job."""
        task = job_owner(native)
        try:
            if queue_is_broken(self._queue):
                raise EngineFailed("an earlier write has failed")
            task.value = task.job()
        except BaseException as caught:  # noqa: BLE001 - it is the engine's to judge
            task.error = caught
            queue_break(self._queue)

    def _completed(self) -> None:
        """What the thread has done since the last time is told, in order."""
        queue_hear(self._queue)
        while self._tasks:
            task = self._tasks[0]
            if not job_finished(task.native):
                return
            self._tasks.popleft()
            number = job_error(task.native)
            error = task.error
            if number == FAILED_BEFORE:
                error = EngineFailed("an earlier write has failed")
            elif number:
                error = OSError(number, os.strerror(number))
            job_free(task.native)
            try:
                task.done(task.value, error)
            except Exception:
                # One listener's bug must not keep the others from hearing of theirs.
                log_output.exception("a completion of the commit thread failed")

    def close(self, wait_seconds: float = 0.0) -> None:
        """End the thread once it has done what was put before."""
        if self._closed:
            return
        self._closed = True
        job_put(self._queue, job_new(None, -1, 0, False, []))
        self._thread.join(wait_seconds)
        # A loop that has closed meanwhile has forgotten its readers.
        with contextlib.suppress(RuntimeError):
            self._loop.remove_reader(self._done_fd)
        if not self._thread.is_alive():
            for task in self._tasks:
                job_free(task.native)
            self._tasks.clear()
            queue_free(self._queue)
            os.close(self._done_fd)
