"""Redrives: kept over restarts, each letter once."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mainstem.broker.broker import Broker
from mainstem.broker.clock import LoopClock
from mainstem.broker.dead_letters.redrives import REDRIVES_MAX, Redrive, RedriveWish
from mainstem.broker.queues import Queue, QueueProperties, encode_headers
from mainstem.coordination.subscriptions.selector import InvalidSelector
from mainstem.storage.memory.engine import MemoryEngine
from tests.support.worlds.brokers import with_engine


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)


async def opened(engine: MemoryEngine) -> Broker:
    return await Broker.open(engine, LoopClock())


async def two_queues(broker: Broker, count: int) -> tuple[Queue, Queue]:
    dead = await broker.queues.declare("default", "dead", QueueProperties())
    work = await broker.queues.declare("default", "work", QueueProperties())
    for number in range(count):
        kind = b"odd" if number % 2 else b"even"
        broker.queues.outbox.put([dead], encode_headers([("kind", kind)]), str(number).encode())
    await broker.queues.outbox.wait_durable()
    return dead, work


def found(broker: Broker, name: str) -> Queue:
    queue = broker.queues.find("default", name)
    assert queue is not None
    queue.open()
    return queue


def redrive_of(broker: Broker, number: int) -> Redrive:
    redrive = broker.redrives.get(number)
    assert redrive is not None
    return redrive


@with_engine
async def test_a_redrive_goes_on_after_a_restart_where_it_was(engine: MemoryEngine) -> None:
    broker = await opened(engine)
    dead, _ = await two_queues(broker, 40)
    wish = RedriveWish(to_queue="work", rate=1_000, limit=15, where="kind = 'odd'")
    redrive = await broker.redrives.start(dead, wish)
    assert redrive is not None
    await until(lambda: redrive.moved >= 5)
    await broker.close()
    assert redrive.state == "running"
    before = redrive.moved
    again = await opened(engine)
    resumed = redrive_of(again, redrive.number)
    assert (resumed.wish, resumed.state) == (wish, "running")
    assert before <= resumed.moved <= before + 1
    await until(lambda: resumed.state == "done")
    assert resumed.moved == 15
    assert found(again, "work").ready_count == 15
    assert found(again, "dead").ready_count == 25
    await again.queues.outbox.wait_durable()
    third = await opened(engine)
    kept = redrive_of(third, redrive.number)
    assert (kept.state, kept.moved) == ("done", 15)
    assert kept.task is None


@with_engine
async def test_done_is_said_when_it_is_durable_and_all_that_was_passed_over_is_back(engine: MemoryEngine) -> None:
    broker = await opened(engine)
    dead, _ = await two_queues(broker, 10)
    asked, may_go_on = asyncio.Event(), asyncio.Event()

    class LateEngine:
        async def alter(self, changes: Any, state: Any) -> None:
            asked.set()
            await may_go_on.wait()
            await engine.alter(changes, state)

    redrive = await broker.redrives.start(dead, RedriveWish(to_queue="work", rate=1_000, where="kind = 'odd'"))
    assert redrive is not None
    broker.redrives._engine = LateEngine()  # type: ignore[assignment]
    await asked.wait()
    assert (redrive.state, redrive.moved, dead.ready_count) == ("running", 5, 5)
    may_go_on.set()
    await until(lambda: redrive.state == "done")


@with_engine
async def test_a_cancelled_one_stays_so(engine: MemoryEngine) -> None:
    broker = await opened(engine)
    dead, _ = await two_queues(broker, 10)
    redrive = await broker.redrives.start(dead, RedriveWish(to_queue="work", rate=0.1))
    assert redrive is not None
    await until(lambda: redrive.moved == 1)
    await broker.redrives.cancel(redrive)
    await until(lambda: redrive.task is None)
    assert dead.ready_count == 9
    again = redrive_of(await opened(engine), redrive.number)
    assert (again.state, again.moved, again.task) == ("cancelled", 1, None)


@with_engine
async def test_of_those_that_ended_the_last_are_remembered(engine: MemoryEngine) -> None:
    broker = await opened(engine)
    dead, _ = await two_queues(broker, 0)
    for _ in range(REDRIVES_MAX + 5):
        redrive = await broker.redrives.start(dead, RedriveWish())
        assert redrive is not None
        await until(lambda redrive=redrive: redrive.task is None)  # type: ignore[misc]
    numbers = [one.number for one in (await opened(engine)).redrives.all()]
    assert numbers == list(range(6, REDRIVES_MAX + 6))


@with_engine
async def test_an_expression_that_is_none_is_refused(engine: MemoryEngine) -> None:
    broker = await opened(engine)
    dead, _ = await two_queues(broker, 1)
    with pytest.raises(InvalidSelector):
        await broker.redrives.start(dead, RedriveWish(where="kind ="))
    assert broker.redrives.all() == []
