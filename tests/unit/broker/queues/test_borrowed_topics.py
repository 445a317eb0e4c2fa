"""Queues on topics that others trim and extend."""

from mainstem.broker.catalog.topics import NewTopic
from mainstem.broker.dead_letters.browsing import Where
from mainstem.broker.queues import Queue, QueueProperties
from mainstem.storage.contract import TrimLog
from tests.support.worlds.queue_world import Holder, World


def borrowed(world: World, *values: bytes) -> Queue:
    world.do(world.broker.topics.create([NewTopic("t", 1)]))
    queue = world.do(world.queues.declare("default", "t", QueueProperties()))
    assert queue.is_borrowed
    world.put(queue, *values)
    world.quiet()
    return queue


def found(world: World) -> Queue:
    queue = world.queues.find("default", "t")
    assert queue is not None
    return queue


def trim(world: World, queue: Queue, before: int) -> None:
    world.wait(world.engine.alter([TrimLog(queue.logs[0], before)], []))


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_what_was_settled_before_it_was_trimmed_is_not_lost_twice(world: World) -> None:
    queue, holder = borrowed(world, *numbers(10)), Holder(room=6)
    queue.attach(holder)
    world.quiet()
    world.queues.settling.settle(holder.held[1:5])
    world.quiet()
    trim(world, queue, 8)
    world.crash()
    queue, holder = found(world), Holder()
    queue.attach(holder)
    world.quiet()
    assert holder.values() == [b"8", b"9"]
    assert (queue.ready_count, queue.unsettled_count, queue.lost) == (0, 2, 4)
    world.queues.settling.settle(holder.let_go())
    world.quiet()
    assert (queue.ready_count, queue.unsettled_count) == (0, 0)


def test_what_somebody_has_when_it_is_trimmed_is_counted_once(world: World) -> None:
    queue, holder = borrowed(world, *numbers(10)), Holder(room=4)
    queue.attach(holder)
    world.quiet()
    world.queues.settling.settle(holder.let_go(1))
    world.queues.settling.requeue(holder.let_go(1), delay_ms=5)
    holder.room = 0
    world.quiet()
    trim(world, queue, 8)
    queue.lanes[0].drop_window(0)  # as it is when messages that an acquisition had are free again
    queue.wake()
    world.quiet()
    world.pass_time(10)
    holder.room = 100
    queue.wake()
    world.quiet()
    assert holder.values() == [b"2", b"3", b"1", b"8", b"9"], "what is in memory is not lost"
    assert (queue.ready_count, queue.unsettled_count, queue.lost) == (0, 5, 4)
    world.queues.settling.settle(holder.let_go())
    world.quiet()
    assert (queue.ready_count, queue.unsettled_count) == (0, 0)
    world.crash()
    again = found(world)
    again.open()
    assert again.ready_count == 0


def test_partitions_that_came_before_a_crash_are_read_after_it(world: World) -> None:
    queue, holder = borrowed(world), Holder()
    world.do(world.broker.topics.expand("t", 2))
    world.crash(power_loss=True)
    queue = found(world)
    assert queue.logs == world.broker.topics.get("t").logs
    queue.attach(holder)
    for key in (b"a", b"b", b"c", b"d"):
        world.put(queue, key, key=key)
    world.quiet()
    assert sorted(holder.values()) == [b"a", b"b", b"c", b"d"]


def test_what_is_left_is_shown_where_the_topic_was_trimmed(world: World) -> None:
    queue = borrowed(world, *numbers(5))
    trim(world, queue, 3)
    world.crash()
    assert world.ready_count(found(world)) == 2
    found(world).open()
    assert (world.ready_count(found(world)), found(world).lost) == (2, 3)
    page = world.do(world.broker.letters.browse(found(world), Where(), 10))
    assert [bytes(one.message.value) for one in page.found] == [b"3", b"4"]
