"""Appending: groups of 1 MiB, single records, ten thousand logs."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Iterator

from benchmarks.load import MIB, bare_groups, engine, one, scratch, single_record
from benchmarks.report import Figure
from mainstem.storage.contract import Append, Commit
from mainstem.storage.local.engine import LocalEngine
from mainstem.wire.record_batch import encode_batch

CALLERS = 64
IN_FLIGHT = 16
LOGS = 10_000
ROUNDS = 10


async def large_groups(parent: str | None, seconds: float) -> list[Figure]:
    """One caller keeps two groups of 1 MiB under way, as a connection does; recycled files, merging idle."""
    payload = encode_batch([(0, 1_700_000_000_000, None, os.urandom(MIB - 100), ())])
    with scratch(parent) as directory:
        bare = bare_groups(directory, [bytes(payload)], seconds)
        async with engine(directory, merging=False, logs=1, wal_spare_files=40, cache_bytes_max=64 * MIB) as opened:
            rate = await _large(opened, payload, seconds, limit=38 * 62)
        bare = max(bare, bare_groups(directory, [bytes(payload)], seconds))
    return [
        Figure("append of 1 MiB groups, MB/s", rate * len(payload) / 1e6, bare * len(payload) / 1e6, at_least=0.7),
    ]


async def _large(opened: LocalEngine, payload: bytearray, seconds: float, limit: int) -> float:
    buffers = [memoryview(bytearray(payload)) for _ in range(4)]
    count = 0
    begin = time.perf_counter()
    end = begin + seconds

    async def caller(mine: list[memoryview]) -> None:
        nonlocal count
        while time.perf_counter() < end and count < limit:
            for buffer in mine:
                await opened.commit((Commit((Append(0, buffer),)),))
                count += 1

    await asyncio.gather(caller(buffers[:1]), caller(buffers[1:2]))
    return count / (time.perf_counter() - begin)


async def single_records(parent: str | None, seconds: float) -> list[Figure]:
    """Commits of one 100-byte record each, from 64 callers.

    The bare loop writes what 64 callers can have under way, 64 single-record batches, and syncs. All of them take turns, and the
    median of each counts: a machine that others use, too, is fast and slow by turns of its own.
    """
    batch = single_record()
    slice_seconds = seconds / ROUNDS
    taken: list[tuple[float, ...]] = []
    with scratch(parent) as directory:
        async with engine(directory, merging=False, logs=LOGS, wal_spare_files=6) as opened:
            for _ in range(ROUNDS):
                taken.append(
                    (
                        bare_groups(directory, [batch] * CALLERS, slice_seconds) * CALLERS,
                        await _callers(opened, batch, slice_seconds, in_flight=1, logs=1),
                        await _callers(opened, batch, slice_seconds, in_flight=IN_FLIGHT, logs=1),
                        await _callers(opened, batch, slice_seconds, in_flight=IN_FLIGHT, logs=LOGS),
                        await _callers(opened, batch, slice_seconds, in_flight=1, logs=LOGS),
                    )
                )
    bare, awaiting, pipelined, spread, spread_awaiting = map(statistics.median, zip(*taken, strict=True))
    return [
        Figure("single-record commits/s, 64 callers each awaiting", awaiting, bare, at_least=0.3),
        Figure("single-record commits/s, 64 callers, 16 in flight each", pipelined, bare, at_least=0.6),
        Figure("the same over 10,000 logs, to one log", spread, pipelined, at_least=0.8),
        Figure("awaiting, over 10,000 logs, to one log", spread_awaiting, awaiting, at_least=0.8),
    ]


async def _callers(opened: LocalEngine, batch: bytes, seconds: float, *, in_flight: int, logs: int) -> float:
    count = 0
    begin = time.perf_counter()
    end = begin + seconds

    async def caller(numbers: Iterator[int]) -> None:
        nonlocal count
        if in_flight == 1:
            while time.perf_counter() < end:
                await opened.commit((one(next(numbers) % logs, batch),))
                count += 1
        else:
            while time.perf_counter() < end:
                await opened.commit([one(next(numbers) % logs, batch) for _ in range(in_flight)])
                count += in_flight

    await asyncio.gather(*(caller(_numbers(first)) for first in range(CALLERS)))
    return count / (time.perf_counter() - begin)


def _numbers(first: int) -> Iterator[int]:
    while True:
        yield first
        first += CALLERS
