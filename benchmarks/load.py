"""What the measurements have in common: an engine, batches, and bare loops to compare with."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeVar

from mainstem.storage.contract import Append, Commit, CreateLog
from mainstem.storage.local.engine import LocalEngine
from mainstem.storage.local.runtime import local_runtime
from mainstem.storage.local.settings import EngineSettings
from mainstem.storage.runtime.disk import LocalDisk
from mainstem.wire.record_batch import encode_batch

T = TypeVar("T")

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
RECYCLED_BYTES = 64 * MIB
NEVER = 10**9

CREATE_STEP = 5_000


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run as the broker does: uvloop, a short switch interval, a garbage collector that leaves long-lived objects alone."""
    sys.setswitchinterval(0.0005)
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)

    async def body() -> T:
        return await main()

    import uvloop

    return uvloop.run(body())


def single_record(size: int = 100) -> bytes:
    """A batch of one record with a value of `size` bytes."""
    return bytes(encode_batch([(0, time.time_ns() // 1_000_000, None, os.urandom(size), ())]))


@contextlib.contextmanager
def scratch(parent: str | None) -> Iterator[str]:
    """A directory that is gone afterwards."""
    path = tempfile.mkdtemp(prefix="mainstem-bench-", dir=parent)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.asynccontextmanager
async def engine(directory: str, *, merging: bool, logs: int = 0, **settings: object) -> AsyncIterator[LocalEngine]:
    """An engine on a real directory, with its recycled files ready."""
    if not merging:
        settings = {"merge_files_min": NEVER, "unmerged_files_max": NEVER, **settings}
    runtime = local_runtime(asyncio.get_running_loop())
    made = EngineSettings(data_directory=directory, **settings)  # type: ignore[arg-type]
    opened = LocalEngine.open(disk=LocalDisk(), runtime=runtime, settings=made)
    for first in range(0, logs, CREATE_STEP):
        await opened.alter([CreateLog(log) for log in range(first, min(logs, first + CREATE_STEP))])
    while opened.writer.spares < made.wal_spare_files:  # noqa: ASYNC110 - spares tell nobody
        await asyncio.sleep(0.01)
    try:
        yield opened
    finally:
        await opened.close()
        runtime.close()


def one(log: int, batch: bytes | memoryview) -> Commit:
    """A commit of one batch."""
    return Commit((Append(log, batch),))


def bare_groups(directory: str, group: list[bytes], seconds: float) -> float:
    """Groups per second of a loop that does nothing but writev and fdatasync, on a recycled file."""
    path = f"{directory}/bare"
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.pwrite(fd, bytes(RECYCLED_BYTES), 0)
        os.fsync(fd)
        size = sum(map(len, group))
        position = count = 0
        begin = time.perf_counter()
        end = begin + seconds
        while time.perf_counter() < end:
            for first in range(0, len(group), 1024):
                part = group[first : first + 1024]
                os.pwritev(fd, part, position)
                position += sum(map(len, part))
            os.fdatasync(fd)
            count += 1
            if position + size > RECYCLED_BYTES:
                position = 0
        return count / (time.perf_counter() - begin)
    finally:
        os.close(fd)
        os.unlink(path)  # noqa: PTH108
