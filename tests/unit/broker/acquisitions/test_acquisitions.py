"""Acquisitions of topics and queues: held alone, over restarts, until they are settled, released, or expire."""

import asyncio

import pytest

from mainstem.broker.acquisitions import Condition, Reading, Ruled
from mainstem.broker.broker import Broker
from mainstem.broker.clock import LoopClock
from mainstem.broker.dead_letters.browsing import origin_of, take
from mainstem.broker.errors import (
    AcquisitionReleased,
    GroupNotEmpty,
    InvalidVerdict,
    UnknownAcquisition,
    UnknownQueue,
    UnknownTopic,
    UnsuitableSource,
)
from mainstem.broker.queues import DeadLetterTarget, Queue
from mainstem.broker.staging.stages import SinkKey
from mainstem.storage.memory.engine import MemoryEngine
from tests.support.worlds.brokers import with_broker, with_engine
from tests.support.worlds.staging import QUERY, Task, values_in
from tests.unit.broker.holding import LEASE_MS, acquire, offsets, produce, put, queue, shared, stretches, topic


class Clock(LoopClock):
    ms = 1_000_000_000

    def now_ms(self) -> int:
        return self.ms


async def waiting(of: Queue, count: int = 0) -> list[bytes]:
    """All that waits, taken out; at least `count`, which may come a little later."""
    found: list[bytes] = []
    while (message := await take(of)) is not None or len(found) < count:
        if message is None:
            await asyncio.sleep(0.001)
        else:
            found.append(bytes(message.value))
    return found


# Topics


@with_broker
async def test_a_share_group_and_an_acquisition_compete(broker: Broker) -> None:
    (log,) = await topic(broker, "t")
    await produce(broker, log, b"a", b"b", b"c", b"d", b"e", b"f")
    one = await acquire(broker, "g", 4, topics=["t"])
    assert one is not None
    assert stretches(one) == [(0, 3, 1)]
    assert await shared(broker, "g", log) == [(4, 5, 1)]
    assert await acquire(broker, "g", topics=["t"]) is None
    assert "g" in broker.share_groups.names()


@with_broker
async def test_partitions_share_what_is_wanted(broker: Broker) -> None:
    logs = await topic(broker, "t", 3)
    for log, count in zip(logs, (10, 2, 10), strict=True):
        await produce(broker, log, *[b"v"] * count)
    one = await acquire(broker, "g", 12, topics=["t"])
    assert one is not None
    assert [sum(last - first + 1 for first, last, _ in one.stretches[log]) for log in logs] == [4, 2, 6]


@with_broker
async def test_what_is_settled_is_gone_and_the_next_goes_on(broker: Broker) -> None:
    (log,) = await topic(broker, "t")
    await produce(broker, log, b"a", b"b", b"c")
    first = await acquire(broker, "g", 2, topics=["t"])
    assert first is not None
    with pytest.raises(InvalidVerdict):
        await broker.acquisitions.settle(first.id)
    await broker.acquisitions.pin(first.id)
    second = await acquire(broker, "g", topics=["t"], after=first.id)
    assert second is not None
    assert stretches(second) == [(2, 2, 1)]
    assert broker.share_groups.subscriptions.cursors("g")[log].floor == 2
    with pytest.raises(UnknownAcquisition):
        broker.acquisitions.get(first.id)


@with_engine
async def test_a_pinned_one_lasts_and_another_expires(engine: MemoryEngine) -> None:
    clock = Clock()
    broker = await Broker.open(engine, clock)
    (log,) = await topic(broker, "t")
    await produce(broker, log, b"a", b"b", b"c", b"d")
    pinned, leased = await acquire(broker, "g", 2, topics=["t"]), await acquire(broker, "g", 1, topics=["t"])
    assert pinned is not None
    assert leased is not None
    await broker.acquisitions.pin(pinned.id)
    clock.ms += LEASE_MS - 1
    broker = await Broker.open(engine, clock)
    await broker.acquisitions.expire()
    rest = await acquire(broker, "g", topics=["t"])
    assert rest is not None
    assert stretches(rest) == [(3, 3, 1)]
    clock.ms += 1
    await broker.acquisitions.expire()
    assert await shared(broker, "g", log) == [(2, 2, 2)]
    with pytest.raises(UnknownAcquisition):
        await broker.acquisitions.pin(leased.id)
    assert broker.acquisitions.get(pinned.id).condition is Condition.PINNED
    with pytest.raises(GroupNotEmpty):
        await broker.share_groups.delete("g")


@with_broker
async def test_what_is_released_goes_to_others(broker: Broker) -> None:
    (log,) = await topic(broker, "t")
    await produce(broker, log, b"a")
    one = await acquire(broker, "g", topics=["t"])
    assert one is not None
    await broker.acquisitions.pin(one.id)
    await broker.acquisitions.release(one.id)
    assert await shared(broker, "g", log) == [(0, 0, 2)]
    for ask in (broker.acquisitions.pin, broker.acquisitions.settle):
        with pytest.raises(AcquisitionReleased):
            await ask(one.id)


@with_engine
async def test_verdicts_on_records_of_topics(engine: MemoryEngine) -> None:
    clock = Clock()
    broker = await Broker.open(engine, clock)
    (log,) = await topic(broker, "t")
    await topic(broker, "dlq.g", **{"errors.deadletterqueue.group.enable": "true"})
    settings = {"errors.deadletterqueue.topic.name": "dlq.g", "errors.deadletterqueue.copy.record.enable": "true"}
    await broker.group_configs.configure("g", lambda _: settings)
    await produce(broker, log, b"a", b"b", b"c", b"d")
    one = await acquire(broker, "g", topics=["t"])
    assert one is not None
    await broker.acquisitions.pin(one.id)
    verdicts = [Ruled(log, [1], "reject", 0, "no price"), Ruled(log, [2], "retry", 5_000), Ruled(log, [3], "retry")]
    await broker.acquisitions.rule(one.id, "", verdicts)
    broker = await Broker.open(engine, clock)
    await broker.acquisitions.settle(one.id)
    await broker.acquisitions.settle(one.id)
    assert await values_in(broker, "dlq.g") == [b"b"]
    broker = await Broker.open(engine, clock)
    assert await shared(broker, "g", log) == [(3, 3, 2)]
    clock.ms += 5_000
    await broker.acquisitions.expire()
    assert await shared(broker, "g", log) == [(2, 2, 2)]


@with_broker
async def test_what_was_tried_too_often_is_given_up(broker: Broker) -> None:
    (log,) = await topic(broker, "t")
    await produce(broker, log, b"a")
    for deliveries in range(1, 6):
        one = await acquire(broker, "g", topics=["t"])
        assert one is not None
        assert stretches(one) == [(0, 0, deliveries)]
        await broker.acquisitions.pin(one.id)
        await broker.acquisitions.rule(one.id, "", [Ruled(log, [0], "retry")])
        await broker.acquisitions.settle(one.id)
    assert await acquire(broker, "g", topics=["t"]) is None
    assert broker.share_groups.subscriptions.cursors("g")[log].floor == 1


@with_broker
async def test_verdicts_are_about_records_that_are_held(broker: Broker) -> None:
    (log,) = await topic(broker, "t")
    await produce(broker, log, b"a")
    one = await acquire(broker, "g", topics=["t"])
    assert one is not None
    await broker.acquisitions.pin(one.id)
    for wrong in ([Ruled(log, [1], "reject")], [Ruled(log + 1, [0], "reject")], [Ruled(log, [0, 0], "reject")]):
        with pytest.raises(InvalidVerdict):
            await broker.acquisitions.rule(one.id, "", wrong)


# Queues


@with_engine
async def test_a_queue_is_acquired_and_settled_over_restarts(engine: MemoryEngine) -> None:
    broker = await Broker.open(engine, LoopClock())
    of = await queue(broker, "q")
    await put(broker, of, *[b"%d" % n for n in range(600)])
    one = await acquire(broker, "q", 400)
    assert one is not None
    assert stretches(one) == [(0, 399, 1)]
    assert (of.ready_count, of.unsettled_count) == (200, 400)
    await broker.acquisitions.pin(one.id)
    broker = await Broker.open(engine, LoopClock())
    of = await queue(broker, "q")
    assert (of.ready_count, of.unsettled_count) == (200, 400)
    assert await waiting(of) == [b"%d" % n for n in range(400, 600)]
    await broker.acquisitions.settle(one.id)
    assert (of.ready_count, of.unsettled_count) == (0, 200)
    broker = await Broker.open(engine, LoopClock())
    of = await queue(broker, "q")
    assert await waiting(of) == [b"%d" % n for n in range(400, 600)]


@with_engine
async def test_verdicts_on_messages_of_a_queue(engine: MemoryEngine) -> None:
    clock = Clock()
    broker = await Broker.open(engine, clock)
    dead = await queue(broker, "dead")
    of = await queue(broker, "q", dead_letter=DeadLetterTarget("", "dead"))
    await put(broker, of, b"a", b"b", b"c", b"d")
    one = await acquire(broker, "q")
    assert one is not None
    await broker.acquisitions.pin(one.id)
    (log,) = one.stretches
    verdicts = [Ruled(log, [1], "reject", 0, "no price"), Ruled(log, [2], "retry", 5_000), Ruled(log, [3], "retry")]
    await broker.acquisitions.rule(one.id, "", verdicts)
    await broker.acquisitions.settle(one.id)
    letter = await take(dead)
    assert letter is not None
    origin = origin_of(letter)
    assert origin is not None
    assert (bytes(letter.value), origin.reason, origin.error, origin.deliveries) == (b"b", "rejected", "no price", 1)
    again = await acquire(broker, "q")
    assert again is not None
    assert stretches(again) == [(3, 3, 2)]
    await broker.acquisitions.release(again.id)
    clock.ms += 5_000
    broker = await Broker.open(engine, clock)
    of = await queue(broker, "q", dead_letter=DeadLetterTarget("", "dead"))
    assert sorted(await waiting(of, 2)) == [b"c", b"d"]


@with_broker
async def test_what_expires_of_a_queue_is_given_out_in_its_place(broker: Broker) -> None:
    of = await queue(broker, "q")
    await put(broker, of, b"a", b"b", b"c")
    one = await acquire(broker, "q", 2)
    assert one is not None
    one.due_ms = 0
    await broker.acquisitions.expire()
    assert await waiting(of) == [b"a", b"b", b"c"]


@with_broker
async def test_what_is_released_does_not_hide_what_waits_before_it(broker: Broker) -> None:
    of = await queue(broker, "q")
    await put(broker, of, b"a", b"b", b"c")
    first = await acquire(broker, "q", 2)
    last = await acquire(broker, "q", 1)
    assert first is not None
    assert last is not None
    await broker.acquisitions.release(first.id)
    taken = await take(of)
    assert taken is not None
    assert bytes(taken.value) == b"a"
    await broker.acquisitions.release(last.id)
    assert await waiting(of) == [b"b", b"c"]


@with_broker
async def test_what_a_consumer_gives_back_while_it_is_to_be_read_anew_is_there_once(broker: Broker) -> None:
    of = await queue(broker, "q")
    await put(broker, of, b"a", b"b", b"c")
    one = await acquire(broker, "q", 1)
    assert one is not None
    taken = await take(of)
    assert taken is not None
    await broker.acquisitions.release(one.id)
    of.give_back([taken])
    assert await waiting(of) == [b"a", b"b", b"c"]


@with_engine
async def test_nothing_is_waited_for_where_all_was_settled_unread(engine: MemoryEngine) -> None:
    broker = await Broker.open(engine, LoopClock())
    await put(broker, await queue(broker, "q"), b"a")
    one = await acquire(broker, "q")
    assert one is not None
    await broker.acquisitions.pin(one.id)
    broker = await Broker.open(engine, LoopClock())
    await broker.acquisitions.settle(one.id)
    assert await take(await queue(broker, "q")) is None


@with_broker
async def test_only_what_was_there_is_acquired(broker: Broker) -> None:
    of = await queue(broker, "q")
    await put(broker, of, b"a", b"b")
    one = await acquire(broker, "q", until={of.logs[0]: 1})
    assert one is not None
    assert offsets(one) == [0]
    assert await acquire(broker, "q", until={of.logs[0]: 1}) is None
    assert of.ready_count == 1
    assert await waiting(of) == [b"b"]


@with_broker
async def test_what_cannot_be_acquired_from(broker: Broker) -> None:
    await queue(broker, "stream", kind="stream")
    await queue(broker, "keyed", ordering="key")
    for name in ("stream", "keyed"):
        with pytest.raises(UnsuitableSource):
            await acquire(broker, name)
    with pytest.raises(UnknownQueue):
        await acquire(broker, "nothing")
    with pytest.raises(UnknownTopic):
        await acquire(broker, "g", topics=["nothing"])


# With the output


@with_engine
async def test_output_and_settlement_are_one(engine: MemoryEngine) -> None:
    broker = await Broker.open(engine, LoopClock())
    await topic(broker, "out")
    dead = await queue(broker, "dead")
    of = await queue(broker, "q", dead_letter=DeadLetterTarget("", "dead"))
    (log,) = await topic(broker, "t")
    await put(broker, of, b"a", b"b")
    await produce(broker, log, b"c")
    one, other = await acquire(broker, "q"), await acquire(broker, "g", topics=["t"])
    assert one is not None
    assert other is not None
    for each in (one, other):
        await broker.acquisitions.read(each.id, Reading(QUERY, 7))
    task = Task(broker, 7)
    await task.write("out", 0, b"A", b"C")
    verdicts = {one.id: [Ruled(of.logs[0], [1], "reject", 0, "wrong")]}
    outcome = await broker.stages.publish(
        SinkKey(QUERY, ""), 7, {task.key: task.position}, lasting=True, verdicts=verdicts
    )
    assert outcome.records == 2
    broker = await Broker.open(engine, LoopClock())
    assert await values_in(broker, "out") == [b"A", b"C"]
    assert {one.condition for one in broker.acquisitions.all()} == {Condition.SETTLED}
    dead, of = await queue(broker, "dead"), await queue(broker, "q", dead_letter=DeadLetterTarget("", "dead"))
    assert (await waiting(dead), await waiting(of)) == ([b"b"], [])
    assert await shared(broker, "g", log) == []


@with_engine
async def test_large_output_and_settlement_are_one(engine: MemoryEngine) -> None:
    broker = await Broker.open(engine, LoopClock())
    await topic(broker, "out")
    of = await queue(broker, "q")
    await put(broker, of, b"a")
    one = await acquire(broker, "q")
    assert one is not None
    await broker.acquisitions.read(one.id, Reading(QUERY, 0))
    task = Task(broker, 0)
    large = [b"A" * 900_000] * 10  # more than one commit takes
    for value in large:
        await task.write("out", 0, value)
    await broker.stages.publish(SinkKey(QUERY, ""), 0, {task.key: task.position}, lasting=True, verdicts={})
    broker = await Broker.open(engine, LoopClock())
    assert await values_in(broker, "out") == large
    assert broker.acquisitions.get(one.id).condition is Condition.SETTLED
    assert await waiting(await queue(broker, "q")) == []
