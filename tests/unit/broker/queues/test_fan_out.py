"""One message for many queues: stored once, counted as what it becomes, and never more than a turn can do."""

from collections.abc import Sequence
from typing import Any

import pytest

from mainstem.broker.queues import Queue, QueueLimits, QueueProperties
from mainstem.broker.queues.publishing import outbox as outboxes
from mainstem.broker.queues.publishing.outcome import HOLD
from mainstem.storage.contract import Commit
from mainstem.wire.record_batch import encode_headers
from tests.support.worlds.queue_world import NO_HEADERS, Holder, World


def declared(world: World, count: int, **properties: object) -> list[Queue]:
    return [
        world.do(world.queues.declare("default", f"q{number}", QueueProperties(**properties)))  # type: ignore[arg-type]
        for number in range(count)
    ]


def put_all(world: World, queues: list[Queue], values: list[bytes]) -> None:
    """As a channel does: as many at a time as make a batch."""
    outbox, done = world.queues.outbox, 0
    fan = tuple(queues)
    while done < len(values):
        count = outbox.put_fan(fan, NO_HEADERS, values, done)
        assert count > 0
        done += count


class CountingEngine:
    """Passes everything on, and counts the bytes of batches."""

    def __init__(self, world: World) -> None:
        self._engine = world.engine
        self.bytes = 0
        world.queues.outbox._engine = self  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def commit(self, commits: Sequence[Commit]) -> Any:
        self.bytes += sum(len(append.batch) for commit in commits for append in commit.appends)
        return self._engine.commit(commits)


def test_small_messages_for_many_queues_are_stored_once(world: World) -> None:
    queues = declared(world, 40)
    values = [b"%04d" % number + bytes(96) for number in range(100)]
    engine = CountingEngine(world)
    put_all(world, queues, values)
    world.quiet()
    assert 100 * 100 < engine.bytes < 100 * 120, "once, and not once for each queue"
    assert [queue.ready_count for queue in queues] == [100] * 40
    for queue in (queues[0], queues[1], queues[39]):
        assert world.values(queue) == values


@pytest.mark.parametrize("crashes", [False, True])
def test_every_queue_gives_out_all_of_it_in_order(world: World, crashes: bool) -> None:
    queues = declared(world, 12, durable=True)
    early = Holder()
    queues[3].attach(early)
    values = [b"%05d" % number for number in range(3_000)]
    put_all(world, queues, values[:1_500])
    world.queues.outbox.put(queues[5:6], NO_HEADERS, b"between")
    put_all(world, queues, values[1_500:])
    world.quiet()
    assert early.values() == values
    if crashes:
        world.crash()
    for number in (0, 5, 11):
        queue = world.queues.find("default", f"q{number}")
        assert queue is not None
        holder = Holder()
        queue.attach(holder)
        world.quiet()
        expected = values if number != 5 else [*values[:1_500], b"between", *values[1_500:]]
        assert holder.values() == expected


def test_a_queue_that_nobody_reads_holds_nothing_of_it_in_memory(world: World) -> None:
    queues = declared(world, 10)
    holder = Holder(room=5)
    queues[4].attach(holder)
    put_all(world, queues, [bytes(100)] * 50)
    world.quiet()
    assert [len(queue.lanes[0].ready) for queue in queues] == [0, 0, 0, 0, 45, 0, 0, 0, 0, 0]
    taken = []
    queues[0].get_one(taken.append)
    world.quiet()
    assert taken[0] is not None


def test_it_counts_as_what_it_becomes(world: World) -> None:
    queues = declared(world, 30)
    intake = world.queues.outbox.intake
    put_all(world, queues, [bytes(100)])
    assert intake.drafted_bytes >= 29 * outboxes.REFERENCE_BYTES
    world.quiet()
    assert intake.drafted_bytes == 0


def test_publishers_are_held_long_before_anything_is_refused(world: World) -> None:
    queues = declared(world, 20)
    world.queues.outbox.intake.bytes_max = 100_000
    taken = 0
    while world.queues.outbox.put(queues, NO_HEADERS, bytes(500)) != HOLD:
        taken += 1
        assert taken < 1_000
    told: list[bool] = []
    world.queues.outbox.when_relieved(lambda: told.append(True))
    world.end_turn()
    world.quiet()
    assert told == [True]
    assert [queue.ready_count for queue in queues] == [taken + 1] * 20, "nothing that was taken is lost"


def test_more_queues_than_one_commit_takes() -> None:
    world = World(limits=QueueLimits(fan_lanes_max=7))
    queues = declared(world, 30)
    values = [b"%03d" % number for number in range(200)]
    put_all(world, queues, values)
    world.queues.outbox.put(queues, NO_HEADERS, b"y" * 2_000)
    world.quiet()
    for queue in (queues[0], queues[6], queues[7], queues[29]):
        assert world.values(queue) == [*values, b"y" * 2_000]
    world.close()


def test_the_queue_that_stores_it_may_go_before_it_is_committed(world: World) -> None:
    queues = declared(world, 6)
    put_all(world, queues, [bytes(600), bytes(601)])
    world.do(world.queues.delete(queues[0]))
    world.quiet()
    assert [len(world.values(queue)) for queue in queues[1:]] == [2] * 5


def test_a_limited_queue_among_them_keeps_its_limit(world: World) -> None:
    queues = declared(world, 5)
    limited = world.do(
        world.queues.declare("default", "limited", QueueProperties(length_max=3, overflow="reject-publish"))
    )
    world.do(world.queues.open(limited))
    outbox = world.queues.outbox
    fan = (*queues, limited)
    assert outbox.put_fan(fan, NO_HEADERS, [bytes(1_000)] * 5, 0) == 0, "each message is a question of its own"
    for _ in range(5):
        outbox.put(fan, NO_HEADERS, bytes(1_000))
    world.quiet()
    assert [queue.ready_count for queue in fan] == [5] * 5 + [3]


def test_messages_of_a_fan_expire(world: World) -> None:
    queues = declared(world, 5)
    world.queues.outbox.put_fan(tuple(queues), NO_HEADERS, [bytes(1_000)] * 4, 0, ttl_ms=50)
    world.quiet()
    assert [queue.ready_count for queue in queues] == [4] * 5
    world.pass_time(200)
    assert [queue.ready_count for queue in queues] == [0] * 5


def test_memory_of_a_window_is_bounded_by_bytes(world: World) -> None:
    queue = declared(world, 1)[0]
    queue.attach(Holder(room=0))
    world.queues.outbox.window_bytes_max = world.queues.reader.window_bytes_max = 20_000
    headers = encode_headers([("k", bytes(1_000))])
    for _ in range(200):
        world.queues.outbox.put([queue], headers, b"")
        world.end_turn()
    world.quiet()
    lane = queue.lanes[0]
    assert len(lane.ready) * 1_000 < 40_000, "empty messages with long headers take memory, too"
    assert queue.ready_count == 200
