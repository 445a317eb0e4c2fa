"""Messages that clients without a connection hold, known by receipts."""

from collections.abc import Iterator

import pytest

from mainstem.broker.queues import Queue, QueueProperties
from mainstem.broker.subscriptions import receipts
from mainstem.broker.subscriptions.pulling import PullRequest
from mainstem.broker.subscriptions.receipts import Receipt, Renewal
from tests.support.worlds.queue_world import World


@pytest.fixture(params=[False, True], ids=["at-once", "late"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    world = World(11, is_late=request.param)
    yield world
    world.close()


def queue_of(world: World, *values: bytes) -> Queue:
    queue = world.do(world.queues.declare("default", "q", QueueProperties()))
    world.in_loop(lambda: world.put(queue, *values))
    world.quiet()
    return queue


def receive(world: World, queue: Queue, count: int = 10, lease_ms: int = 1_000) -> list[Receipt]:
    return world.do(world.broker.receipts.receive(queue, PullRequest(count), lease_ms))


def test_a_lease_is_the_subscriptions_and_a_renewed_one_lasts(world: World) -> None:
    queue = queue_of(world, b"a", b"b")
    a, b = receive(world, queue)
    world.do(world.broker.receipts.settle(queue, renew=[Renewal(b.id, 5_000)]))
    assert b.until_ms == a.until_ms + 4_000
    world.pass_time(1_100)
    assert [bytes(one.message.value) for one in receive(world, queue)] == [b"a"]
    settled = world.do(world.broker.receipts.settle(queue, accept=[a.id, b.id]))
    assert (settled.done, settled.unknown) == (1, [a.id]), "what is late has no effect"


def test_receipts_of_messages_that_are_gone_are_forgotten(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts, "SWEPT_MIN", 2)
    world.broker.receipts._sweep_at = 2
    queue = queue_of(world, b"a", b"b", b"c")
    for _ in range(5):
        assert len(receive(world, queue)) == 3
        world.pass_time(1_100)
    assert len(world.broker.receipts._known) <= 2 * 3
