"""Scheduled records end in queues and topics of a real broker."""

import asyncio
from collections.abc import Callable

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import NewTopic
from mainstem.broker.clock import LoopClock
from mainstem.broker.queues import QueueProperties
from mainstem.broker.routes import Destination, DestinationKind, NewExchange
from mainstem.broker.schedules import Letter, Target
from mainstem.broker.schedules.reading import records_in
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.wire.record_batch import encode_headers
from tests.support.worlds.brokers import with_broker, with_engine

SPACE = "default"


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)


async def declare(broker: Broker, name: str) -> object:
    queue = await broker.queues.declare(SPACE, name, QueueProperties())
    await broker.routes.of(SPACE).bind("amq.topic", Destination(DestinationKind.QUEUE, name), f"{name}.#", {})
    return queue


@with_broker
async def test_through_an_exchange_to_queues(broker: Broker) -> None:
    one, two = await declare(broker, "one"), await declare(broker, "two")
    now_ms = broker.clock.now_ms()
    target = Target(SPACE, "amq.topic", ("one.x", "two.y"))
    broker.schedules.schedule(target, b"\0", b"value", due_ms=now_ms + 20)
    broker.schedules.schedule(Target(SPACE, "gone", ("k",)), b"\0", b"value", due_ms=now_ms + 20)
    await until(lambda: broker.schedules.pending_count == 2)
    await until(lambda: one.ready_count == 1 and two.ready_count == 1)
    await until(lambda: broker.schedules.pending_count == 0)


@with_engine
async def test_to_partitions_of_a_topic_by_key_and_by_number(engine: MemoryEngine) -> None:
    broker = await Broker.open(engine, LoopClock())
    (topic,) = await broker.topics.create([NewTopic("events", 4)])
    headers = encode_headers([("h", b"1")])
    now_ms = broker.clock.now_ms()
    for number in range(8):
        letter = Letter(Target(SPACE, topic="events"), now_ms, headers, b"%d" % number, key=b"same")
        await broker.schedules.schedule_now(letter, now_ms + 10)
    await broker.schedules.schedule_now(
        Letter(Target(SPACE, topic="events", partition=3), now_ms, b"\0", b"x"), now_ms + 10
    )
    await until(lambda: broker.schedules.mover.moved_total == 9)
    found = {}
    for partition, log in enumerate(topic.logs):
        records = list(records_in((await engine.read(log, 0, 1 << 20)).batches))
        if records:
            found[partition] = records
    by_key = [records for records in found.values() if records[0].key == b"same"]
    assert [len(records) for records in by_key] == [8]
    assert tuple(by_key[0][0].headers) == (("h", b"1"),)
    assert any(record.value == b"x" for record in found[3])


@with_broker
async def test_a_record_that_meets_a_second_delayed_exchange_waits_again(broker: Broker) -> None:
    queue = await broker.queues.declare(SPACE, "q", QueueProperties())
    router = broker.routes.of(SPACE)
    for name in ("first", "second"):
        await router.declare_exchange(NewExchange(name, "x-delayed-message", arguments={"x-delayed-type": "fanout"}))
    await router.bind("first", Destination(DestinationKind.EXCHANGE, "second"), "", {})
    await router.bind("second", Destination(DestinationKind.QUEUE, "q"), "", {})
    headers = encode_headers([("x-delay", b"30")])
    begin = broker.clock.monotonic()
    broker.schedules.schedule(Target(SPACE, "first", ("k",)), headers, b"v", due_ms=broker.clock.now_ms() + 30)
    await until(lambda: queue.ready_count == 1)
    assert broker.clock.monotonic() - begin >= 0.058


class Delays:
    """How late timers of the loop itself are: what a busy machine adds to everything."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.worst_ms = 0.0
        self._due = 0.0
        self._wait()

    def _wait(self) -> None:
        self._due = self._broker.clock.monotonic() + 0.005
        self._timer = self._broker.clock.call_later(0.005, self._called)

    def _called(self) -> None:
        self.worst_ms = max(self.worst_ms, (self._broker.clock.monotonic() - self._due) * 1000)
        self._wait()

    def stop(self) -> None:
        self._timer.cancel()


@with_broker
async def test_on_time(broker: Broker) -> None:
    queue = await declare(broker, "q")
    delays = Delays(broker)
    for number in range(50):
        broker.schedules.schedule(
            Target(SPACE, "amq.topic", ("q",)), b"\0", b"v", due_ms=broker.clock.now_ms() + 20 + 7 * number
        )
    await until(lambda: queue.ready_count == 50)
    delays.stop()
    # One delay until it is seen that something is due, one while the commit before it is waited for.
    assert broker.schedules.mover.late_ms_max <= 50 + 3 * delays.worst_ms
