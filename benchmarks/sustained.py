"""Sixty seconds of load with merging keeping up, compared to the same with merging idle; and stalls of the event loop."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from benchmarks.append import CALLERS, IN_FLIGHT, LOGS
from benchmarks.load import engine, one, scratch, single_record
from benchmarks.report import Figure
from mainstem.model.errors import Overloaded
from mainstem.storage.contract import Budget, ConfigureLog, LogConfig
from mainstem.storage.local.engine import LocalEngine

STALL_SECONDS = 0.020
"""A tick that comes so late. It is ours when this process used the processor for so long meanwhile; else the machine was
elsewhere: the merging child had both cores, or a neighbour had the host."""
TICK_SECONDS = 0.002
BYTES_PER_LOG = 100_000
"""Retention, so that a long run does not fill the disk."""


async def sustained(parent: str | None, seconds: float) -> list[Figure]:
    """Single records over 10,000 logs."""
    with scratch(parent) as directory:
        async with engine(directory, merging=False, logs=LOGS, wal_spare_files=4) as opened:
            idle, _ = await _load(opened, min(seconds, 15.0))
    with scratch(parent) as directory:
        async with engine(directory, merging=True, logs=LOGS) as opened:
            limit = LogConfig(retention_bytes=BYTES_PER_LOG)
            for first in range(0, LOGS, 1000):
                await opened.alter([ConfigureLog(log, limit) for log in range(first, first + 1000)])
            merging, stalls = await _load(opened, seconds)
            waiting = len(opened.backlog.files)
    return [
        Figure(f"sustained single-record commits/s over {seconds:.0f} s, merging, to merging idle", merging, idle, 0.6),
        Figure("files waiting to be merged at the end", waiting, at_most=8),
        Figure("event-loop stalls over 20 ms per minute, our own", stalls.own * 60 / seconds, at_most=10),
        Figure("event-loop stalls over 20 ms per minute, all", stalls.all * 60 / seconds),
        Figure("longest stall, ms", stalls.longest * 1000),
    ]


@dataclass
class Stalls:
    """Ticks of the event loop that came late."""

    own: int = 0
    all: int = 0
    longest: float = 0.0

    async def watch(self) -> None:
        """Count until cancelled."""
        while True:
            before, used_before = time.perf_counter(), time.process_time()
            await asyncio.sleep(TICK_SECONDS)
            late = time.perf_counter() - before - TICK_SECONDS
            self.longest = max(self.longest, late)
            if late > STALL_SECONDS:
                self.all += 1
                self.own += time.process_time() - used_before > STALL_SECONDS


async def _load(opened: LocalEngine, seconds: float) -> tuple[float, Stalls]:
    batch = single_record()
    count = 0
    stalls = Stalls()
    begin = time.perf_counter()
    end = begin + seconds

    async def caller(number: int) -> None:
        nonlocal count
        while time.perf_counter() < end:
            commits = []
            for _ in range(IN_FLIGHT):
                commits.append(one(number % LOGS, batch))
                number += CALLERS
            try:
                await opened.commit(commits)
            except Overloaded:
                await asyncio.sleep(0.01)
                continue
            count += IN_FLIGHT

    async def keep_house() -> None:
        while True:
            await asyncio.sleep(1)
            await opened.maintain(Budget())

    background = [asyncio.ensure_future(stalls.watch()), asyncio.ensure_future(keep_house())]
    await asyncio.gather(*(caller(first) for first in range(CALLERS)))
    rate = count / (time.perf_counter() - begin)
    for task in background:
        task.cancel()
    await asyncio.gather(*background, return_exceptions=True)
    return rate, stalls
