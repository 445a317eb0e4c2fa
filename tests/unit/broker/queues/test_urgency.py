"""Quorum queues give out two urgent messages for one of the others, where both wait."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.broker.queues import QueueProperties, encode_headers
from mainstem.broker.queues.queue import Queue
from mainstem.model.errors import Overloaded
from mainstem.storage.answer import Answer
from tests.support.worlds.queue_world import SMALL_LIMITS, Holder, World

QUORUM = QueueProperties(kind="quorum")
Waiting = tuple[int, bytes]
"""When it came, and what it is."""


def declare(world: World, name: str = "q", properties: QueueProperties = QUORUM) -> Queue:
    return world.do(world.queues.declare("default", name, properties))


def find(world: World) -> Queue:
    queue = world.queues.find("default", "q")
    assert queue is not None
    return queue


def consumed(world: World, queue: Queue, room: int = 1) -> list[bytes]:
    """All of it, in portions."""
    holder = Holder(room)
    queue.attach(holder)
    received = []
    while True:
        world.quiet()
        if not holder.held:
            queue.detach(holder)
            return received
        received += holder.values()
        world.queues.settling.settle(holder.let_go())
        queue.wake()


def expected(calm: list[Waiting], urgent: list[Waiting], turn: int = 0) -> list[bytes]:
    """RabbitMQ's rule, message by message."""
    calm, urgent, order = list(calm), list(urgent), []
    while calm or urgent:
        is_calm = not urgent or (calm and turn == 2 and urgent[0][0] >= calm[0][0])
        chosen = calm if is_calm else urgent
        order.append(chosen.pop(0)[1])
        turn = 0 if turn == 2 else turn + 1
    return order


def test_two_for_one(world: World) -> None:
    queue = declare(world)
    world.put(queue, *[b"calm-%d" % n for n in range(4)], priority=4)
    world.put(queue, *[b"urgent-%d" % n for n in range(5)], priority=5)
    world.quiet()
    assert queue.ready_count == 9
    words = "urgent-0 urgent-1 calm-0 urgent-2 urgent-3 calm-1 urgent-4 calm-2 calm-3"
    assert consumed(world, queue) == words.encode().split()


def test_what_came_earlier_and_is_urgent_is_not_overtaken(world: World) -> None:
    queue = declare(world)
    world.put(queue, *[b"urgent-%d" % n for n in range(5)], priority=9)
    world.pass_time(10)
    world.put(queue, *[b"calm-%d" % n for n in range(2)])
    world.quiet()
    assert consumed(world, queue) == b"urgent-0 urgent-1 urgent-2 urgent-3 urgent-4 calm-0 calm-1".split()


@settings(max_examples=30, deadline=None)
@given(
    rounds=st.lists(st.lists(st.sampled_from([0, 4, 5, 255]), min_size=1, max_size=15), min_size=1, max_size=5),
    room=st.integers(1, 7),
    crash=st.booleans(),
)
def test_the_order_is_that_of_the_rule(rounds: list[list[int]], room: int, crash: bool) -> None:
    """With windows of a few messages, so that most are read from the log; each round a while after the other."""
    world = World(limits=SMALL_LIMITS)
    queue = declare(world)
    calm: list[Waiting] = []
    urgent: list[Waiting] = []
    for number, priorities in enumerate(rounds):
        for at, priority in enumerate(priorities):
            value = b"%d-%d-%d" % (priority, number, at)
            world.put(queue, value, priority=priority)
            (urgent if priority >= 5 else calm).append((number, value))
        world.pass_time(10)
    if crash:
        world.crash()
        queue = find(world)
    assert queue.ready_count == len(calm) + len(urgent)
    assert consumed(world, queue, room) == expected(calm, urgent)
    assert queue.ready_count == 0
    world.close()


def test_the_partition_for_them_comes_with_the_first(world: World) -> None:
    queue = declare(world)
    world.put(queue, b"calm", priority=4)
    world.quiet()
    topics = world.broker.topics.named()
    assert len(topics["q"].logs) == 1
    world.put(queue, b"urgent", priority=5)
    world.quiet()
    assert topics["q"].logs == queue.logs
    assert [world.records(log) for log in queue.logs] == [[(0, b"calm")], [(0, b"urgent")]]
    assert world.do(world.queues.delete(queue)) == 2
    assert "q" not in topics


@pytest.mark.parametrize("seed", range(12))
def test_a_crash_at_any_moment(seed: int) -> None:
    """What was called durable is there, in a lane that is seen as a partition."""
    world = World(seed)
    queue = declare(world)
    durable: list[BaseException | None] = []
    world.put(queue, b"urgent", priority=7, then=durable.append)
    world.runtime.run(seed)
    world.crash()
    queue = find(world)
    if durable:
        assert world.values(queue) == [b"urgent"]
    assert world.broker.topics.named()["q"].logs == queue.logs
    world.put(queue, b"calm")
    world.put(queue, b"more", priority=7)
    world.quiet()
    assert world.broker.topics.named()["q"].logs == queue.logs
    assert len(queue.logs) == 2
    assert consumed(world, queue)[-2:] == [b"more", b"calm"]
    world.close()


def test_a_topic_that_is_deleted_takes_it_along(world: World) -> None:
    queue = declare(world)
    world.put(queue, b"urgent", priority=7)
    world.do(world.broker.topics.delete(world.broker.topics.named()["q"]))  # before it is seen as a partition
    world.quiet()
    assert world.queues.find("default", "q") is None
    world.crash()
    assert world.queues.find("default", "q") is None
    queue = declare(world)
    world.put(queue, b"again", priority=7)
    world.quiet()
    assert consumed(world, queue) == [b"again"]


def test_when_it_cannot_be_made_the_message_is_one_of_the_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = declare(world)
    world.put(queue, b"calm")
    world.quiet()
    with monkeypatch.context() as patched:
        patched.setattr(type(world.engine), "alter", lambda *_: Answer.failed(Overloaded("too much waits")))
        world.put(queue, b"too soon", priority=7)
    world.put(queue, b"urgent", priority=7)
    world.quiet()
    assert len(queue.lanes) == len(queue.logs) == 2
    assert consumed(world, queue) == [b"urgent", b"calm", b"too soon"]


def test_other_kinds_of_queues_have_none(world: World) -> None:
    classic = declare(world, "classic", QueueProperties())
    world.put(classic, b"a", priority=0)
    world.put(classic, b"b", priority=9)
    world.quiet()
    assert len(classic.logs) == 1
    assert consumed(world, classic) == [b"a", b"b"]


def test_limits_and_expiry_count_both(world: World) -> None:
    queue = declare(world, properties=QueueProperties(kind="quorum", length_max=3))
    world.put(queue, b"1", b"2", b"3")
    world.put(queue, b"u", priority=7)
    world.quiet()
    assert queue.ready_count == 3
    other = declare(world, "r", QueueProperties(kind="quorum"))
    headers = encode_headers([("mainstem-ttl", b"50")])
    world.queues.outbox.put([other], headers, b"short", ttl_ms=50, priority=7)
    world.put(other, b"long", priority=0)
    world.quiet()
    world.pass_time(100)
    assert other.ready_count == 1
    assert consumed(world, other) == [b"long"]
