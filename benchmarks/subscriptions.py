"""Subscriptions: what idle ones take of the broker's memory, and what a cursor with a million holes takes."""

from __future__ import annotations

import gc

from benchmarks.idle_memory import resident_bytes
from benchmarks.load import engine, scratch
from benchmarks.report import Figure
from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE, NewTopic
from mainstem.broker.clock import LoopClock
from mainstem.broker.subscriptions.topic_subscriptions import SubscriptionWish
from mainstem.coordination.subscriptions.subscribed_log import SubscribedLog

TOPICS = 100
SUBSCRIPTION_BYTES_MAX = 3 << 10
HOLES = 1_000_000
HOLES_BYTES_MAX = 1 << 20
CURSORS = 20
SETTLED_AT_ONCE = 20_000
LOG = 7


async def subscriptions(parent: str | None, count: int) -> list[Figure]:
    """Durable subscriptions that a client opened and left, the same after a restart, and one cursor with holes."""
    holes = _holes()  # First: what others have freed would be used again.
    with scratch(parent) as directory:
        opened = await _opened(directory, count)
        loaded = await _loaded(directory, count)
    return [
        Figure(f"memory of one of {count:,} idle subscriptions, bytes", opened, at_most=SUBSCRIPTION_BYTES_MAX),
        Figure("the same after a restart, bytes", loaded, at_most=SUBSCRIPTION_BYTES_MAX),
        Figure(f"memory of a cursor with {HOLES:,} holes, bytes", holes, at_most=HOLES_BYTES_MAX),
    ]


async def _opened(directory: str, count: int) -> float:
    async with engine(directory, merging=True, wal_spare_files=1) as log:
        broker = await Broker.open(log, LoopClock())
        await broker.topics.create([NewTopic(f"topic-{number}", 1) for number in range(TOPICS)])
        gc.collect()
        before = resident_bytes()
        for number in range(count):
            await broker.topic_subscriptions.open(_wish(number))
        gc.collect()
        each = (resident_bytes() - before) / count
        await broker.close()
    return each


def _wish(number: int) -> SubscriptionWish:
    return SubscriptionWish(DEFAULT_NAMESPACE, f"topic-{number % TOPICS}", f"s{number}")


async def _loaded(directory: str, count: int) -> float:
    """The engine's own memory for the stored state counts, too."""
    before = resident_bytes()
    async with engine(directory, merging=True, wal_spare_files=1) as log:
        broker = await Broker.open(log, LoopClock())
        assert len(broker.topic_subscriptions.all()) == count
        gc.collect()
        each = (resident_bytes() - before) / count
        await broker.close()
    return each


def _holes() -> float:
    """Of several cursors, so that what the C library keeps for reuse counts for little."""
    before = resident_bytes()
    cursors = [SubscribedLog(LOG, 0) for _ in range(CURSORS)]
    for cursor in cursors:
        for first in range(1, 2 * HOLES, SETTLED_AT_ONCE):
            cursor.settle(range(first, first + SETTLED_AT_ONCE, 2))
            cursor.work_in()
    gc.collect()
    return (resident_bytes() - before) / CURSORS
