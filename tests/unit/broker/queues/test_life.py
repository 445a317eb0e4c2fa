"""Queues come, are found again after a restart, and go."""

import asyncio

import pytest

from mainstem.broker.catalog.topics import NewTopic
from mainstem.broker.errors import PropertiesDiffer, QueueInUse, QueueLocked, QueueNotEmpty, UnknownTopic
from mainstem.broker.queues import Put, Queue, QueueProperties, StreamStart, queue_name_of, topic_name_of
from mainstem.broker.routes import Destination, DestinationKind
from mainstem.coordination.catalog.partitioning import partition_of
from mainstem.model.errors import CommitTooLarge, OffsetOutOfRange
from mainstem.storage.contract import Append, Budget, Commit, Mutation
from mainstem.wire.record_batch import Record, encode_batch, encode_marker
from tests.support.worlds.queue_world import NO_HEADERS, Holder, World


def declared(world: World, name: str = "q", **properties: object) -> Queue:
    return world.do(world.queues.declare("default", name, QueueProperties(**properties)))  # type: ignore[arg-type]


def found(world: World, name: str = "q") -> Queue:
    queue = world.queues.find("default", name)
    assert queue is not None
    return queue


def test_declared_again_it_is_the_same_or_refused(world: World) -> None:
    queue = declared(world, length_max=5)
    assert declared(world, length_max=5) is queue
    with pytest.raises(PropertiesDiffer) as difference:
        declared(world, length_max=6)
    assert (difference.value.field, difference.value.wanted, difference.value.present) == ("length_max", 6, 5)


@pytest.mark.parametrize("namespace", ["team/a", "/a//b/", "zero\0zero", "ü.%2F"])
def test_a_namespace_with_any_name_lets_its_queues_go(world: World, namespace: str) -> None:
    for _ in range(2):
        queue = world.do(world.queues.declare(namespace, "q", QueueProperties()))
        world.put(queue, b"1")
        world.quiet()
        world.do(world.queues.delete(queue))
        assert not world.broker.topics.named(namespace)
    world.do(world.queues.declare(namespace, "kept", QueueProperties()))
    world.crash()
    assert [queue.name for queue in world.queues.all(namespace)] == ["kept"]
    assert list(world.broker.topics.named(namespace)) == ["kept"]


def test_names_with_zeros_are_told_apart(world: World) -> None:
    pairs = [("a", "b\0c"), ("a\0b", "c")]
    for namespace, name in pairs:
        queue = world.do(world.queues.declare(namespace, name, QueueProperties()))
        world.do(world.queues.pause(queue, is_paused=True))
    world.do(world.queues.delete(world.queues.all("a")[0]))
    world.crash()
    assert not world.queues.all("a")
    (kept,) = world.queues.all("a\0b")
    assert kept.is_paused


def test_a_queue_stored_before_zeros_were_escaped_can_go(world: World) -> None:
    queue = world.do(world.queues.declare("a\0b", "c", QueueProperties()))
    key, stored = next(iter(world.wait(world.engine.load("queues")).entries.items()))
    old_key = b"queue/a\0b\0c"
    assert key != old_key
    world.wait(world.engine.alter((), [Mutation("queues", key, None), Mutation("queues", old_key, stored)]))
    world.crash()
    world.quiet()
    (queue,) = world.queues.all("a\0b")
    world.do(world.queues.delete(queue))
    world.crash()
    assert not world.queues.all("a\0b")


def test_a_topic_goes_while_its_binding_is_removed(world: World) -> None:
    queue = declared(world)
    router = world.broker.routes.of("default")
    destination = Destination(DestinationKind.QUEUE, "q")
    world.do(router.bind("amq.direct", destination, "k", {}, durable=True))

    async def both() -> None:
        deletion = asyncio.ensure_future(world.broker.topics.delete(world.broker.topics.get("q")))
        await asyncio.sleep(0)
        await router.unbind("amq.direct", destination, "k", {})
        await deletion

    world.do(both())
    assert queue.is_gone
    assert not list(router.bindings())


def test_an_exclusive_queue_is_its_owners_and_ends_with_the_broker(world: World) -> None:
    owner = object()
    queue = world.do(world.queues.declare("default", "mine", QueueProperties(exclusive=True), owner=owner))
    with pytest.raises(QueueLocked):
        world.do(world.queues.declare("default", "mine", QueueProperties(exclusive=True), owner=object()))
    assert queue.topic_name is None
    assert not world.broker.topics.named()
    world.crash()
    assert world.queues.find("default", "mine") is None


def test_transient_queues_end_with_the_broker_and_leave_nothing(world: World) -> None:
    queue = declared(world, durable=False)
    world.put(queue, b"1")
    world.quiet()
    world.crash()
    assert world.queues.find("default", "q") is None
    with pytest.raises(UnknownTopic):
        world.broker.topics.get("q")


def test_what_is_settled_stays_settled_and_the_rest_is_there(world: World) -> None:
    queue, holder = declared(world), Holder(room=6)
    queue.attach(holder)
    world.put(queue, *(b"%d" % n for n in range(10)))
    world.quiet()
    world.queues.settling.settle([message for message in holder.held if message.value in (b"0", b"1", b"3")])
    world.quiet()
    world.crash()
    again, later = found(world), Holder()
    assert world.ready_count(again) == 7
    again.attach(later)
    world.quiet()
    assert later.values() == [b"2", b"4", b"5", b"6", b"7", b"8", b"9"]
    assert [deliveries for _, deliveries in later.told][:3] == [1, 1, 1], "they were given out before"


def test_after_a_proper_end_only_what_was_given_out_is_called_so(world: World) -> None:
    queue, holder = declared(world), Holder(room=1)
    queue.attach(holder)
    world.put(queue, b"1", b"2")
    world.quiet()
    world.do(world.queues.close())
    world.crash()
    later = Holder()
    found(world).attach(later)
    world.quiet()
    assert later.told == [(b"1", 1), (b"2", 0)]


def test_deleting(world: World) -> None:
    queue, holder = declared(world), Holder(room=0)
    queue.attach(holder)
    world.put(queue, b"1", b"2")
    world.quiet()
    with pytest.raises(QueueInUse):
        world.do(world.queues.delete(queue, if_unused=True))
    with pytest.raises(QueueNotEmpty):
        world.do(world.queues.delete(queue, if_empty=True))
    assert world.do(world.queues.delete(queue)) == 2
    assert holder.is_cancelled
    assert not world.broker.topics.named()
    new = declared(world)
    assert new.ready_count == 0, "another one of the same name is empty"


def test_a_message_for_a_queue_that_is_deleted_in_the_same_turn_hurts_nobody(world: World) -> None:
    queue, other = declared(world), declared(world, "other")
    outcome: list[BaseException | None] = []
    world.put(queue, b"1")
    world.put(other, b"2", then=outcome.append)
    world.do(world.broker.topics.delete(world.broker.topics.get("q")))
    world.quiet()
    assert outcome == [None]
    assert world.values(other) == [b"2"]
    assert world.queues.find("default", "q") is None


def test_nothing_is_published_to_a_queue_that_is_gone(world: World) -> None:
    queue, other = declared(world), declared(world, "other")
    world.do(world.queues.delete(queue))
    outcome: list[BaseException | None] = []
    for value in (b"small", b"large" * 400):
        assert world.queues.outbox.put([queue, other], NO_HEADERS, value) == 0
    world.put(queue, b"alone", then=outcome.append)
    world.quiet()
    assert outcome == [None]
    assert [len(value) for value in world.values(other)] == [5, 2000]


def test_purging_leaves_what_is_given_out(world: World) -> None:
    queue, holder = declared(world), Holder(room=2)
    queue.attach(holder)
    world.put(queue, *(b"%d" % n for n in range(600)))
    world.quiet()
    assert world.do(world.queues.purge(queue)) == 598
    assert (world.ready_count(queue), queue.unsettled_count) == (0, 2)
    world.queues.settling.requeue(holder.let_go())
    world.quiet()
    world.crash()
    assert world.ready_count(found(world)) == 2


def test_auto_delete_after_the_last_consumer(world: World) -> None:
    queue, holder = declared(world, auto_delete=True), Holder()
    world.quiet()
    assert not queue.is_gone, "it waits for its first consumer"
    queue.attach(holder)
    queue.detach(holder)
    world.quiet()
    assert queue.is_gone


def test_a_queue_that_nobody_uses_expires(world: World) -> None:
    queue = declared(world, expires_ms=1000)
    world.pass_time(900)
    declared(world, expires_ms=1000)  # use
    world.pass_time(900)
    assert not queue.is_gone
    world.pass_time(200)
    assert queue.is_gone


def test_names_are_escaped_reversibly() -> None:
    for name in ("orders", "a b", "queue.x", "ü/\0", ".", "..", "a.b_c-D9"):
        topic = topic_name_of(name)
        assert topic is not None
        assert queue_name_of(topic) == name
    assert topic_name_of("orders") == "orders"
    assert topic_name_of("x" * 250) is None


def test_a_queue_on_a_topic_starts_at_its_end_and_leaves_it_when_it_goes(world: World) -> None:
    (topic,) = world.do(world.broker.topics.create([NewTopic("t", 2)]))
    assert not isinstance(topic, Exception)
    batch = encode_batch([Record(0, 1, b"k", b"before")])
    world.wait(world.engine.commit([Commit([Append(topic.logs[0], batch)])]))
    queue, holder = declared(world, "t"), Holder()
    assert queue.is_borrowed
    queue.attach(holder)
    for log in topic.logs:
        world.wait(world.engine.commit([Commit([Append(log, encode_batch([Record(0, 1, b"k", b"after %d" % log)]))])]))
    world.quiet()
    assert sorted(holder.values()) == sorted(b"after %d" % log for log in topic.logs)
    world.queues.settling.settle(holder.let_go(1))
    world.quiet()
    world.crash()
    again = found(world, "t")
    assert world.ready_count(again) == 1
    world.do(world.queues.delete(again))
    assert world.broker.topics.get("t").logs == topic.logs


def test_a_key_stays_in_its_partition_of_a_borrowed_topic(world: World) -> None:
    world.do(world.broker.topics.create([NewTopic("t", 3)]))
    queue = declared(world, "t")
    for n in range(6):
        world.put(queue, b"%d" % n, key=b"k%d" % (n % 2))
    world.quiet()
    places = {value: log for log in queue.logs for _, value in world.records(log)}
    for first in (b"0", b"1"):
        key = b"k" + first
        assert {places[b"%d" % n] for n in range(6) if n % 2 == int(first)} == {queue.logs[partition_of(key, 3)]}


def test_what_a_transaction_wrote_is_given_out_when_it_is_committed_and_never_when_aborted(world: World) -> None:
    queue, holder = declared(world), Holder()
    queue.attach(holder)
    log = queue.logs[0]

    def write(producer: int, value: bytes) -> None:
        batch = encode_batch(
            [Record(0, 1, None, value)], producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True
        )
        world.wait(world.engine.commit([Commit([Append(log, batch)])]))

    def end(producer: int, *, commit: bool) -> None:
        marker = encode_marker(producer_id=producer, producer_epoch=0, commit=commit, timestamp_ms=1)
        world.wait(world.engine.commit([Commit([Append(log, marker)])]))

    write(1, b"kept")
    world.put(queue, b"behind")
    world.quiet()
    assert holder.values() == [], "nothing passes an open transaction"
    write(2, b"dropped")
    end(1, commit=True)
    world.quiet()
    assert holder.values() == [b"kept", b"behind"]
    end(2, commit=False)
    world.put(queue, b"last")
    world.quiet()
    assert holder.values() == [b"kept", b"behind", b"last"]
    assert queue.ready_count == 0


def test_streams_are_read_side_by_side(world: World) -> None:
    queue = declared(world, "s", kind="stream")
    for n in range(5):
        world.put(queue, b"%d" % n)
        world.quiet()
        world.clock.advance(10)
    starts = {
        "first": [b"0", b"1", b"2", b"3", b"4", b"new"],
        "last": [b"4", b"new"],
        "next": [b"new"],
        "offset": [b"3", b"4", b"new"],
    }
    readers = {}
    for kind in starts:
        readers[kind] = holder = Holder(room=3)
        holder.start = StreamStart(kind, 3)  # type: ignore[attr-defined, arg-type]
        queue.attach(holder)
    world.quiet()
    world.put(queue, b"new")
    world.quiet()
    assert readers["first"].values() == [b"0", b"1", b"2"], "as far as there is room"
    for kind, values in starts.items():
        world.queues.settling.settle(readers[kind].held)
        readers[kind].room += 10
        queue.wake()
        world.quiet()
        assert readers[kind].values() == values
    assert queue.ready_count == 6


def test_rewinding_after_everything_was_settled(world: World) -> None:
    queue, holder = declared(world), Holder()
    queue.attach(holder)
    for n in range(4):
        world.put(queue, b"%d" % n)
        world.quiet()
        world.clock.advance(100)
    world.queues.settling.settle(holder.let_go())
    world.quiet()
    world.do(world.queues.seek(queue, offset=2))
    world.quiet()
    assert holder.told[4:] == [(b"2", 1), (b"3", 1)]
    world.queues.settling.settle(holder.let_go())
    world.do(world.queues.seek(queue, time_ms=world.runtime.now_ms() - 350))
    world.quiet()
    assert holder.values() == [b"1", b"2", b"3"]
    world.queues.settling.settle(holder.let_go())
    assert world.do(world.queues.redeliver(queue, {0: [0, 3, 99]})) == 2
    world.quiet()
    assert holder.values() == [b"0", b"3"]
    world.crash()
    assert sorted(world.values(found(world))) == [b"0", b"3"]


def test_a_place_that_one_level_does_not_have_moves_none_of_them(world: World) -> None:
    queue, holder = declared(world, priority_max=1), Holder()
    queue.attach(holder)
    world.put(queue, b"1", b"2", b"3")
    world.put(queue, b"urgent", priority=1)
    world.quiet()
    world.queues.settling.settle(holder.let_go())
    world.quiet()
    with pytest.raises(OffsetOutOfRange):
        world.do(world.queues.seek(queue, offset=2))
    world.quiet()
    assert holder.values() == []
    assert queue.ready_count + queue.unsettled_count == 0


def test_what_is_settled_goes_when_its_time_is_over_and_what_is_not_stays(world: World) -> None:
    queue, holder = declared(world, retention_ms=1000), Holder()
    queue.attach(holder)
    for n in range(50):
        world.put(queue, b"%d" % n * 100)
        world.quiet()
    world.queues.settling.settle(holder.let_go(40))
    world.quiet()
    world.pass_time(5_000)
    for _ in range(3):
        world.wait(world.engine.maintain(Budget()))
        world.pass_time(10_000)
    offsets = [offset for offset, _ in world.records(queue.logs[0])]
    assert offsets[-1] == 49
    assert 0 < offsets[0] <= 40


def test_a_transaction_is_one_commit_or_refused_before_anything_is_done(world: World) -> None:
    first, second, holder = declared(world, "first"), declared(world, "second"), Holder()
    first.attach(holder)
    world.put(first, b"1")
    world.quiet()
    taken = holder.let_go()
    large = [Put([second], NO_HEADERS, b"x" * (9 << 20))] * 3
    with pytest.raises(CommitTooLarge):
        world.do(world.queues.outbox.commit_transaction(large, lambda: world.queues.settling.settle(taken)))
    assert first.unsettled_count == 1
    puts = [Put([first, second], NO_HEADERS, b"2"), Put([second], NO_HEADERS, b"3")]
    assert world.do(world.queues.outbox.commit_transaction(puts, lambda: world.queues.settling.settle(taken))) == []
    world.crash()
    assert (world.values(found(world, "first")), world.values(found(world, "second"))) == ([b"2"], [b"2", b"3"])


def test_asking_for_the_count_does_not_open_a_queue(world: World) -> None:
    queue, unused = declared(world), declared(world, "unused")
    assert world.ready_count(unused) == 0
    assert not unused.lanes
    holder = Holder(room=3)
    queue.attach(holder)
    world.put(queue, *(b"%d" % number for number in range(5)))
    world.quiet()
    world.queues.settling.settle([holder.held[0], holder.held[2]])
    world.quiet()
    world.crash()
    world.start()
    found = world.queues.find("default", "q")
    assert found is not None
    assert world.ready_count(found) == 3
    assert not found.lanes
    found.open()
    assert found.lanes
    assert world.ready_count(found) == 3
