"""Many records that wait for their time: what they cost in memory, and whether those that are due are on time meanwhile."""

from __future__ import annotations

import asyncio
import os
import random
import time

from benchmarks.idle_memory import resident_bytes
from benchmarks.load import engine, scratch
from benchmarks.report import Figure
from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import NewTopic
from mainstem.broker.clock import LoopClock
from mainstem.broker.schedules import Target

TURN = 2_000
YEAR_MS = 365 * 86_400_000
GROWTH_MB_MAX = 256
LATE_MS_MAX = 50
PROBES = 200


async def schedules(parent: str | None, count: int) -> list[Figure]:
    """Records of 100 bytes, due within a year; then some that are due within seconds."""
    seeded = random.Random(1)
    with scratch(parent) as directory:
        async with engine(directory, merging=True, cache_bytes_max=16 << 20) as opened:
            broker = await Broker.open(opened, LoopClock())
            await broker.topics.create([NewTopic("topic", 1)])
            target = Target("default", topic="topic")
            value = os.urandom(100)
            before = resident_bytes()
            begun = time.perf_counter()
            for _ in range(0, count, TURN):
                now_ms = broker.clock.now_ms()
                for _ in range(TURN):
                    due_ms = now_ms + 600_000 + seeded.randrange(YEAR_MS)
                    broker.schedules.schedule(target, b"\0", value, due_ms=due_ms)
                await broker.queues.outbox.wait_durable()
            rate = count / (time.perf_counter() - begun)
            growth = (resident_bytes() - before) / 1e6
            pending = broker.schedules.pending_count
            for number in range(PROBES):
                broker.schedules.schedule(target, b"\0", value, due_ms=broker.clock.now_ms() + 500 + 10 * number)
            async with asyncio.timeout(60):
                while broker.schedules.mover.moved_total < PROBES:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.01)
            late = broker.schedules.mover.late_ms_max
            broker.schedules.stop()
    return [
        Figure(f"scheduled records that wait: {pending:,}; put in, records/s", rate),
        Figure("memory for them, MB", growth, at_most=GROWTH_MB_MAX),
        Figure("those due meanwhile, ms late at worst", late, at_most=LATE_MS_MAX),
    ]
