"""Counts are right when the engine says late where a log begins and ends."""

import asyncio
from typing import Any, cast

import pytest

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE
from mainstem.broker.clock import LoopClock
from mainstem.broker.dead_letters.browsing import take
from mainstem.broker.queues import QueueProperties, encode_headers
from mainstem.broker.queues.publishing.outcome import HOLD, REFUSED
from mainstem.storage.memory.engine import MemoryEngine
from tests.support.worlds.brokers import with_engine
from tests.support.worlds.queue_world import World
from tests.unit.broker.holding import produce, put, queue, topic


@with_engine
async def test_the_records_of_a_stream_are_counted_from_its_start(engine: MemoryEngine) -> None:
    broker = await Broker.open(engine, LoopClock())
    stream = await queue(broker, "stream", kind="stream")
    await put(broker, stream, *(b"%d" % at for at in range(10)))
    await engine.trim(stream.lanes[0].log, 4)
    await broker.queues.know([stream])
    assert stream.ready_count == 6


@with_engine
async def test_what_retention_took_before_the_first_use_is_lost_and_not_counted(engine: MemoryEngine) -> None:
    first = await Broker.open(engine, LoopClock())
    (log,) = await topic(first, "t")
    await first.queues.declare(DEFAULT_NAMESPACE, "t", QueueProperties(durable=True))
    await produce(first, log, *(b"%d" % at for at in range(10)))
    await engine.trim(log, 7)

    broker = await Broker.open(engine, LoopClock())
    borrowed = broker.queues.find(DEFAULT_NAMESPACE, "t")
    assert borrowed is not None
    await broker.queues.know([borrowed])
    assert borrowed.ready_count == 3
    borrowed.open()
    await broker.queues.know([borrowed])
    (lane,) = borrowed.lanes
    assert (borrowed.lost, lane.cursor.floor, borrowed.ready_count) == (7, 7, 3)


@with_engine
async def test_an_idle_queue_is_counted_without_being_opened(engine: MemoryEngine) -> None:
    first = await Broker.open(engine, LoopClock())
    await put(first, await queue(first, "q"), b"a", b"b")
    broker = await Broker.open(engine, LoopClock())
    idle = broker.queues.find(DEFAULT_NAMESPACE, "q")
    assert idle is not None
    await broker.queues.know([idle])
    assert idle.ready_count == 2


@with_engine
async def test_who_asks_a_queue_of_the_last_run_for_a_message_gets_it(engine: MemoryEngine) -> None:
    first = await Broker.open(engine, LoopClock())
    await put(first, await queue(first, "q"), b"a")
    broker = await Broker.open(engine, LoopClock())
    kept = broker.queues.find(DEFAULT_NAMESPACE, "q")
    assert kept is not None
    message = await take(kept)
    assert message is not None
    assert message.value == b"a"


@with_engine
async def test_one_that_publishes_waits_until_it_is_known_whether_the_queue_is_full(engine: MemoryEngine) -> None:
    first = await Broker.open(engine, LoopClock())
    await put(first, await queue(first, "q", length_max=1, overflow="reject-publish"), b"a")
    broker = await Broker.open(engine, LoopClock())
    full = broker.queues.find(DEFAULT_NAMESPACE, "q")
    assert full is not None
    outbox = broker.queues.outbox
    relieved = asyncio.Event()
    if outbox.put([full], encode_headers([]), b"b") == HOLD:
        outbox.when_relieved(relieved.set, [full])
        await relieved.wait()
    await broker.queues.know([full])
    assert outbox.put([full], encode_headers([]), b"c") == REFUSED


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_what_is_refused_late_is_refused_and_nothing_else_is(seed: int) -> None:
    """Every publish is answered; the queue holds those that were taken, in order, and no other."""
    world = World(seed, is_late=True)
    queue = world.do(world.queues.declare("default", "q", QueueProperties(durable=True)))
    late = cast("Any", world.engine)
    late.refused_share = 0.5
    answers: list[tuple[bytes, BaseException | None]] = []
    for number in range(40):
        value = b"%d" % number
        world.put(queue, value, then=lambda error, value=value: answers.append((value, error)))  # type: ignore[misc]
        world.end_turn()
        world.end_turn()
    while len(answers) < 40:
        world.end_turn()
    late.refused_share = 0.0
    world.quiet()
    taken = [value for value, error in answers if error is None]
    assert late.refused
    assert taken
    assert world.values(queue) == taken
    assert world.ready_count(queue) == len(taken)
    world.crash()
    again = world.queues.find("default", "q")
    assert again is not None
    assert world.ready_count(again) == len(taken)
    world.close()
