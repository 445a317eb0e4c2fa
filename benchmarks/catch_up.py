"""Reading history from the page cache, compared to a bare pread loop over as many bytes."""

from __future__ import annotations

import os
import statistics
import time

from benchmarks.load import MIB, engine, one, scratch, single_record
from benchmarks.report import Figure
from mainstem.storage.contract import Append, Budget, Commit, ReadHint
from mainstem.storage.local.engine import LocalEngine
from mainstem.wire.record_batch import encode_batch

READ_BYTES = 4 * MIB
ROUNDS = 41
LARGE_LOG, SMALL_LOG = 0, 1


async def catch_up(parent: str | None, megabytes: int) -> list[Figure]:
    """One log of 64 KiB batches, and one of single-record batches, both merged; read in turns with the bare loop."""
    taken: list[tuple[float, ...]] = []
    with scratch(parent) as directory:
        path = f"{directory}/bare"
        _fill_bare(path, megabytes)
        async with engine(directory, merging=True, logs=2, cache_bytes_max=MIB) as opened:
            await _fill(opened, megabytes)
            for _ in range(ROUNDS):
                taken.append((_read_bare(path), await _read_all(opened, LARGE_LOG), await _read_all(opened, SMALL_LOG)))
    bare, large, small = map(statistics.median, zip(*taken, strict=True))
    return [
        Figure("catch-up read, 64 KiB batches, MB/s", large / 1e6, bare / 1e6, at_least=0.6),
        Figure("catch-up read, single-record batches, MB/s", small / 1e6, bare / 1e6, at_least=0.6),
    ]


async def _fill(opened: LocalEngine, megabytes: int) -> None:
    big = bytes(encode_batch([(0, 1_700_000_000_000, None, os.urandom(64 * 1024), ())]))
    for _ in range(megabytes):
        await opened.commit([Commit((Append(LARGE_LOG, big),)) for _ in range(16)])
    batch = single_record()
    count = megabytes * MIB // len(batch)
    for first in range(0, count, 5_000):
        await opened.commit([one(SMALL_LOG, batch) for _ in range(min(5_000, count - first))])
    # Until all of the small log is sealed and merged.
    small = opened.ledger.visible[SMALL_LOG]
    while small.tail is not None:
        await opened.commit([Commit((Append(LARGE_LOG, big),)) for _ in range(16)])
        await opened.maintain(Budget())


async def _read_all(opened: LocalEngine, log: int) -> float:
    offset = total = 0
    begin = time.perf_counter()
    while True:
        result = await opened.read(log, offset, READ_BYTES, ReadHint.CATCH_UP)
        if not result.batches:
            return total / (time.perf_counter() - begin)
        total += sum(map(len, result.batches))
        offset = result.next_offset


def _fill_bare(path: str, megabytes: int) -> None:
    with open(path, "wb") as file:  # noqa: PTH123
        for _ in range(megabytes):
            file.write(os.urandom(MIB))


def _read_bare(path: str) -> float:
    fd = os.open(path, os.O_RDONLY)
    size = os.fstat(fd).st_size
    begin = time.perf_counter()
    for position in range(0, size, READ_BYTES):
        os.pread(fd, READ_BYTES, position)
    rate = size / (time.perf_counter() - begin)
    os.close(fd)
    return rate
