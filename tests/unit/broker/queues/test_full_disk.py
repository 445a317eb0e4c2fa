"""Queues on a disk that is full: what is there stays, and is given out."""

import pytest

from mainstem.broker.queues import DeadLetterTarget, Put, Queue, QueueProperties
from mainstem.model.errors import StorageFull
from tests.support.worlds.queue_world import NO_HEADERS, Holder, World


def declared(world: World, name: str = "q", **properties: object) -> Queue:
    return world.do(world.queues.declare("default", name, QueueProperties(**properties)))  # type: ignore[arg-type]


def found(world: World, name: str) -> Queue:
    queue = world.queues.find("default", name)
    assert queue is not None
    return queue


def fill(world: World, queue: Queue) -> None:
    """The disk is full, and the outbox knows."""
    world.engine.ledger.full = True
    world.put(queue, b"refused")
    world.quiet_whatever_fails()
    assert world.queues.outbox.is_full


def make_room(world: World) -> None:
    world.engine.ledger.full = False
    world.pass_time(10_000)


def test_what_is_rejected_stays_until_its_dead_letter_can_be_written(world: World) -> None:
    dead = declared(world, "dead")
    queue, holder = declared(world, dead_letter=DeadLetterTarget("", "dead")), Holder()
    queue.attach(holder)
    world.put(queue, b"1")
    world.quiet()
    fill(world, queue)
    world.queues.settling.reject(holder.let_go())
    world.quiet_whatever_fails()
    assert world.values(queue) == [b"1"]
    make_room(world)
    assert holder.values() == [b"1"], "it is given out again"
    assert holder.held[0].deliveries == 1
    world.queues.settling.reject(holder.let_go())
    world.quiet()
    assert (world.values(queue), world.values(dead)) == ([], [b"1"])


def test_a_transaction_that_is_refused_acknowledges_nothing(world: World) -> None:
    queue, out, holder = declared(world), declared(world, "out"), Holder()
    queue.attach(holder)
    world.put(queue, b"1", b"2")
    world.quiet()
    world.engine.ledger.full = True
    taken = holder.let_go(1)
    puts = [Put([out], NO_HEADERS, b"made of 1")]
    with pytest.raises(StorageFull):
        world.do(world.queues.outbox.commit_transaction(puts, lambda: world.queues.settling.settle(taken)))
    make_room(world)
    assert world.values(queue) == [b"1", b"2"]
    assert queue.ready_count + queue.unsettled_count == 2
    assert [(value, deliveries) for value, deliveries in holder.told if value == b"1"] == [(b"1", 0), (b"1", 1)]
    world.crash()
    assert world.values(found(world, "q")) == [b"1", b"2"]


def test_who_waits_is_served_although_what_was_published_along_is_refused(world: World) -> None:
    queue, holder = declared(world), Holder()
    world.put(queue, b"1")
    world.quiet()
    world.engine.ledger.full = True
    queue.attach(holder)
    world.put(queue, b"2")
    world.end_turn()
    world.quiet_whatever_fails()
    world.quiet()
    assert holder.values() == [b"1"]


def test_retention_hears_after_a_kill_what_was_settled_before(world: World) -> None:
    queue, holder = declared(world, durable=True), Holder()
    queue.attach(holder)
    world.put(queue, b"1", b"2", b"3")
    world.quiet()
    world.queues.settling.settle(holder.let_go())
    world.quiet()
    (log,) = queue.logs
    assert world.engine.ledger.logs[log].floor == 0, "it is told a second later"
    world.crash()
    assert world.engine.ledger.logs[log].floor == 3
