"""The process that merges: sorting and copying hold the interpreter, so they are done beside the broker, not in it.

The child lives as long as its parent wants it: it reads jobs from its standard input and answers on its standard output, each a
u32 little-endian size and the bytes. It must not outlive its parent, because a new broker may already be writing to the files
that a job would cut: it ends when its input closes, even in the middle of a job, and on Linux when its parent dies.

Run as `python -m mainstem.storage.local.merge.process`.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import select
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import IO

from mainstem.kept_memory import give_memory_back, keep_memory
from mainstem.storage.local.merge.job import MergeOutcome, encode_outcome
from mainstem.storage.local.merge.merge import run_merge_job
from mainstem.storage.runtime.disk import LocalDisk

NICENESS = 10
CLOSE_SECONDS_MAX = 1.0
GC_THRESHOLDS = (200_000, 20, 100)
"""A merge makes many objects and no cycles: looking for them often is wasted."""
KEPT_BYTES = 1 << 30
KEPT_PIECE_BYTES = 1 << 28
"""Files are read whole: what one was read into, the next one takes."""
IDLE_SECONDS = 5.0
"""Until what was kept is given back."""
_PR_SET_PDEATHSIG = 1
_SIZE = struct.Struct("<I")


class MergeProcess:
    """The parent's end. `run` blocks, so it is called from a thread; one job at a time. `close` may be called from any thread."""

    def __init__(self, command: Sequence[str] | None = None) -> None:
        self._command = list(command or (sys.executable, "-m", "mainstem.storage.local.merge.process"))
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._closed = False

    def run(self, job: bytes) -> bytes:
        """Have an encoded job done, answer its encoded outcome; that of a child that died is an error."""
        with self._lock:
            if self._closed:
                return _failure("the merge process is closed")
            try:
                child = self._child or self._start()
                return _exchange(child, job)
            except (OSError, EOFError) as error:
                status = self._end_child()
                return _failure(f"the merge process ended with exit status {status} ({error})")

    def close(self) -> None:
        """End the child, also in the middle of a job, which then fails."""
        self._closed = True
        self.abandon()  # closing its input would do, but another thread may be using that
        with self._lock:
            self._end_child()

    def abandon(self) -> None:
        """Kill the child, without waiting for its end: a job under way fails."""
        child = self._child
        if child is not None:
            child.kill()

    @property
    def pid(self) -> int | None:
        """Process id of the child, while there is one."""
        return None if self._child is None else self._child.pid

    def _start(self) -> subprocess.Popen[bytes]:
        # Linux takes the *thread* that started a process for its parent, and the caller's may end any time: hence one of our own.
        started = threading.Event()
        failure: list[OSError] = []

        def keep() -> None:
            try:
                child = subprocess.Popen(  # noqa: S603 - our own interpreter
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
            except OSError as error:
                failure.append(error)
                started.set()
                return
            self._child = child
            started.set()
            child.wait()

        threading.Thread(target=keep, name="mainstem-merge-keeper", daemon=True).start()
        started.wait()
        if failure:
            raise failure[0]
        assert self._child is not None
        if self._closed:  # closed while it was being started
            raise EOFError("closed")
        return self._child

    def _end_child(self) -> int | None:
        child, self._child = self._child, None
        if child is None:
            return None
        # One that failed is about to end by itself, and its own exit status says more than that of a killed one.
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(CLOSE_SECONDS_MAX)
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        return child.returncode


def _failure(what: str) -> bytes:
    return encode_outcome(MergeOutcome(error=what))


def _exchange(child: subprocess.Popen[bytes], job: bytes) -> bytes:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(_SIZE.pack(len(job)) + job)
    child.stdin.flush()
    outcome = read_message(child.stdout)
    if outcome is None:
        raise EOFError("no answer")
    return outcome


def read_message(stream: IO[bytes]) -> bytes | None:
    """The next message, None at the end; raises EOFError within one."""
    head = stream.read(_SIZE.size)
    if not head:
        return None
    if len(head) == _SIZE.size:
        (size,) = _SIZE.unpack(head)
        data = stream.read(size)
        if len(data) == size:
            return data
    raise EOFError("the stream ends within a message")


def serve(
    jobs: IO[bytes], outcomes: IO[bytes], work: Callable[[bytes], bytes], rest: Callable[[], None] = lambda: None
) -> None:
    """Answer each job until there are no more; rest before each."""
    while True:
        rest()
        job = read_message(jobs)
        if job is None:
            return
        outcome = work(job)
        outcomes.write(_SIZE.pack(len(outcome)) + outcome)
        outcomes.flush()


def give_back_when_idle() -> None:
    """Give memory back if no job comes for a while."""
    # Nothing is buffered meanwhile: the parent awaits an outcome before it sends the next job.
    ready, _, _ = select.select([sys.stdin.fileno()], [], [], IDLE_SECONDS)
    if not ready:
        give_memory_back()


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_end_when_input_closes, name="input-watch", daemon=True).start()


def _end_when_input_closes() -> None:
    poll = select.poll()
    poll.register(sys.stdin.fileno(), 0)  # hang-up is always reported, and nothing else is wanted
    poll.poll()
    os._exit(0)


def main() -> None:
    """The child."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal, meant for the broker, which then closes us
    _end_with_parent()
    os.nice(NICENESS)
    outcomes = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # so that nothing else can get between the answers
    disk = LocalDisk()
    keep_memory(KEPT_BYTES, KEPT_PIECE_BYTES)
    gc.set_threshold(*GC_THRESHOLDS)
    gc.collect()
    gc.freeze()
    serve(sys.stdin.buffer, outcomes, lambda job: run_merge_job(disk, job), give_back_when_idle)


if __name__ == "__main__":
    main()
