"""Who is given what, in which order."""

import pytest

from mainstem.broker.errors import QueueBusy
from mainstem.broker.queues import Message, Queue, QueueProperties
from mainstem.model.errors import CorruptData
from mainstem.storage.answer import Answer
from mainstem.storage.contract import ReadResult
from tests.support.worlds.queue_world import NO_HEADERS, Holder, World


def declared(world: World, name: str = "q", **properties: object) -> Queue:
    return world.do(world.queues.declare("default", name, QueueProperties(**properties)))  # type: ignore[arg-type]


def test_messages_are_given_out_in_turn(world: World) -> None:
    queue, holders = declared(world), [Holder(), Holder(), Holder()]
    for holder in holders:
        queue.attach(holder)
    world.put(queue, *(b"%d" % n for n in range(9)))
    world.quiet()
    assert sorted(len(holder.held) for holder in holders) == [3, 3, 3]
    assert {tuple(int(value) % 3 for value in holder.values()) for holder in holders} == {(0,) * 3, (1,) * 3, (2,) * 3}


def test_nobody_is_given_more_than_there_is_room_for(world: World) -> None:
    queue, narrow, wide = declared(world), Holder(room=2), Holder(room=5)
    queue.attach(narrow)
    queue.attach(wide)
    world.put(queue, *(b"%d" % n for n in range(10)))
    world.quiet()
    assert (len(narrow.held), len(wide.held), queue.ready_count) == (2, 5, 3)
    world.queues.settling.settle(narrow.let_go(1))
    queue.wake()
    world.quiet()
    assert (len(narrow.held), queue.ready_count) == (2, 2)


def test_bytes_are_room_too_but_one_message_always_fits(world: World) -> None:
    queue, holder = declared(world), Holder()
    holder.room_bytes = 100
    world.put(queue, *(b"x" * 60 for _ in range(10)))
    world.quiet()
    holder.room = 3
    queue.attach(holder)
    world.quiet()
    assert len(holder.held) == 3


def test_a_higher_priority_is_served_first_as_long_as_it_has_room(world: World) -> None:
    queue, low, high = declared(world), Holder(), Holder(room=4, priority=10)
    queue.attach(low)
    queue.attach(high)
    world.put(queue, *(b"%d" % n for n in range(10)))
    world.quiet()
    assert (len(high.held), len(low.held)) == (4, 6)


def test_single_active_consumer(world: World) -> None:
    queue, first, second = declared(world, single_active=True), Holder(), Holder()
    queue.attach(first)
    queue.attach(second)
    assert (first.is_active, second.is_active) == (True, None)
    world.put(queue, b"1", b"2")
    world.quiet()
    assert (len(first.held), len(second.held)) == (2, 0)
    queue.detach(first)
    world.queues.settling.requeue(first.let_go())
    world.quiet()
    assert second.is_active
    assert second.told == [(b"1", 1), (b"2", 1)]


def test_exclusive_consumers(world: World) -> None:
    queue = declared(world)
    queue.attach(Holder())
    with pytest.raises(QueueBusy):
        queue.attach(Holder(is_exclusive=True))
    alone = declared(world, "alone", ordering="exclusive")
    alone.attach(Holder())
    with pytest.raises(QueueBusy):
        alone.attach(Holder())


def test_urgent_messages_go_first(world: World) -> None:
    queue = declared(world, priority_max=3)
    for n in range(8):
        world.put(queue, b"%d" % n, priority=n % 5)
    world.quiet()
    holder = Holder()
    queue.attach(holder)
    world.quiet()
    assert holder.values() == [b"3", b"4", b"2", b"7", b"1", b"6", b"0", b"5"], "5 and above count as the highest"
    world.queues.settling.settle(holder.let_go())
    world.quiet()
    world.crash()
    again = world.queues.find("default", "q")
    assert again is not None
    assert again.ready_count == 0


def test_one_key_is_worked_on_by_one_consumer_at_a_time(world: World) -> None:
    queue, holders = declared(world, ordering="key"), [Holder(room=2), Holder(room=2)]
    for holder in holders:
        queue.attach(holder)
    for n in range(6):
        assert world.queues.outbox.put([queue], NO_HEADERS, b"%d" % n, key=b"ab"[n % 2 : n % 2 + 1]) == 0
    world.quiet()
    assert sorted(holder.values() for holder in holders) == [[b"0", b"2"], [b"1", b"3"]]
    mine = next(holder for holder in holders if holder.values() == [b"0", b"2"])
    world.queues.settling.settle(mine.let_go(1))
    queue.wake()
    world.quiet()
    assert mine.values() == [b"2", b"4"], "the key stays with who has it"
    assert [message.key for message in mine.held] == [b"a", b"a"]


def test_a_paused_queue_gives_nothing_out(world: World) -> None:
    queue, holder = declared(world), Holder()
    queue.attach(holder)
    queue.pause()
    world.put(queue, b"1")
    world.quiet()
    assert not holder.held
    queue.resume()
    world.quiet()
    assert holder.values() == [b"1"]


def test_get_one_by_one(world: World) -> None:
    queue = declared(world)
    world.put(queue, b"1", b"2")
    world.quiet()
    got: list[bytes | None] = []
    for _ in range(3):
        queue.get_one(lambda message: got.append(None if message is None else bytes(message.value)))
    world.quiet()
    assert got == [b"1", b"2", None]
    assert queue.unsettled_count == 2


def test_a_backlog_larger_than_memory_is_read_from_the_log(world: World) -> None:
    queue = declared(world)
    for _ in range(40):
        world.put(queue, *(b"x" * 500 for _ in range(50)))
        world.end_turn()
    world.quiet()
    assert len(queue.lanes[0].ready) < 2000 == queue.ready_count
    holder = Holder()
    queue.attach(holder)
    world.quiet()
    assert [message.offset for message in holder.held] == list(range(2000))


def test_fan_out_keeps_the_order_of_each_queue(world: World) -> None:
    queues = [declared(world, name) for name in ("a", "b", "c")]
    put, large = world.queues.outbox.put, b"x" * 2000
    put(queues[:1], NO_HEADERS, b"0")
    put(queues, NO_HEADERS, b"1" + large)
    put(queues[1:2], NO_HEADERS, b"2")
    put(queues, NO_HEADERS, b"3" + large)
    put(queues, NO_HEADERS, b"4" + large)
    put(queues[::-1], NO_HEADERS, b"5" + large)
    put(queues, NO_HEADERS, b"6")
    world.quiet()
    first = [[value[:1] for value in world.values(queue)] for queue in queues]
    assert first == [
        [b"0", b"1", b"3", b"4", b"5", b"6"],
        [b"1", b"2", b"3", b"4", b"5", b"6"],
        [b"1", b"3", b"4", b"5", b"6"],
    ]
    for queue, values in zip(queues, first, strict=True):
        holder = Holder()
        queue.attach(holder)
        world.quiet()
        assert [value[:1] for value in holder.values()] == values


def test_a_more_important_consumer_takes_over_when_the_active_one_has_finished(world: World) -> None:
    queue = declared(world, single_active=True, kind="quorum", dead_letter=None)
    first, second, third = Holder(room=2), Holder(priority=5), Holder(priority=1)
    queue.attach(first)
    world.put(queue, b"1", b"2", b"3")
    world.quiet()
    queue.attach(second)
    queue.attach(third)
    world.quiet()
    assert (first.is_active, second.is_active) == (True, None)
    world.queues.settling.settle(first.let_go(1))
    queue.wake()
    world.quiet()
    assert first.values() == [b"2"], "it is given nothing more"
    world.queues.settling.settle(first.let_go())
    queue.wake()
    world.quiet()
    assert (first.is_active, second.is_active, third.is_active) == (False, True, None)
    assert second.values() == [b"3"]


def test_in_a_classic_queue_nobody_is_overtaken(world: World) -> None:
    queue, first, second = declared(world, single_active=True), Holder(), Holder(priority=5)
    queue.attach(first)
    queue.attach(second)
    world.put(queue, b"1")
    world.quiet()
    assert (first.values(), second.values()) == ([b"1"], [])


def test_a_pause_outlasts_a_restart(world: World) -> None:
    queue = declared(world)
    world.put(queue, b"1")
    world.do(world.queues.pause(queue, is_paused=True))
    for is_paused in (True, False):
        world.crash()
        world.start()
        found, holder = world.queues.find("default", "q"), Holder()
        assert found is not None
        assert found.is_paused is is_paused
        found.attach(holder)
        world.quiet()
        assert holder.values() == ([] if is_paused else [b"1"])
        found.detach(holder)
        world.do(world.queues.pause(found, is_paused=False))
    found = world.queues.find("default", "q")
    assert found is not None
    world.do(world.queues.pause(found, is_paused=True))
    world.do(world.queues.delete(found))
    again = declared(world)
    world.crash()
    world.start()
    assert again.is_paused is False
    found = world.queues.find("default", "q")
    assert found is not None
    assert not found.is_paused


def test_consumers_get_what_they_want_and_the_rest_keeps_its_place(world: World) -> None:
    queue, odd, small, anything = declared(world), Holder(), Holder(), Holder()
    queue.attach(odd, lambda message: int(message.value) % 2 == 1)
    queue.attach(small, lambda message: int(message.value) < 4)
    world.put(queue, *(b"%d" % number for number in range(10)))
    world.quiet()
    assert set(odd.values()) | set(small.values()) == {b"0", b"1", b"2", b"3", b"5", b"7", b"9"}
    assert odd.values() == sorted(odd.values())
    assert {b"0", b"2"} <= set(small.values())
    assert queue.ready_count == 3
    world.queues.settling.requeue(odd.let_go(), failed=False)
    queue.detach(odd)
    queue.attach(anything)
    world.quiet()
    assert {b"4", b"6", b"8"} <= set(anything.values())
    assert anything.values() == sorted(anything.values())
    assert sorted(small.values() + anything.values()) == [b"%d" % number for number in range(10)]
    assert queue.ready_count == 0


def test_a_selective_consumer_looks_only_so_far_and_loses_nothing(world: World) -> None:
    queue, holder = declared(world), Holder()
    queue.attach(holder, lambda message: message.value == b"wanted")
    world.put(queue, *([b"other"] * 2_000), b"wanted")
    world.quiet()
    assert holder.values() == []
    rest = Holder(room=1_500)
    queue.attach(rest)
    world.quiet()
    assert holder.values() == [b"wanted"]
    queue.detach(holder)
    assert len(rest.held) + queue.ready_count == 2_000


@pytest.mark.parametrize("how", ["by key", "by choice"])
def test_bytes_are_limited_where_every_message_is_looked_at(world: World, how: str) -> None:
    class Narrow(Holder):
        def deliver(self, queue: Queue, messages: list[Message]) -> None:
            assert sum(len(message.value) for message in messages[:-1]) < self.room_bytes
            super().deliver(queue, messages)
            self.room_bytes = max(self.room_bytes - sum(len(message.value) for message in messages), 0)

    queue, holder = declared(world, ordering="key" if how == "by key" else "shared"), Narrow()
    holder.room_bytes = 250
    queue.attach(holder, None if how == "by key" else lambda message: True)
    world.put(queue, *([bytes(100)] * 5))
    world.quiet()
    assert len(holder.held) == 3
    holder.room_bytes = 100
    queue.wake()
    world.quiet()
    assert (len(holder.held), queue.ready_count) == (4, 1)


def test_who_asks_for_one_message_is_answered_where_it_cannot_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put(declared(world), b"1")
    world.quiet()
    world.crash()
    queue = world.queues.find("default", "q")
    assert queue is not None
    world.do(world.queues.open(queue))
    failed: Answer[ReadResult] = Answer()
    failed.fail(CorruptData("a run", 0, "bits have flipped", ()))
    monkeypatch.setattr(world.engine, "read", lambda *_: failed)
    got: list[Message | None] = []
    queue.get_one(got.append)
    assert got == [None]
    monkeypatch.undo()
    queue.get_one(got.append)
    world.quiet()
    assert got[1] is not None
    assert got[1].value == b"1"


def given_back(world: World, queue: Queue, holder: Holder) -> None:
    """Two are given out, more urgent and less urgent ones come, the two are given back."""
    queue.attach(holder)
    world.put(queue, b"first", priority=1)
    world.put(queue, b"second", priority=2)
    world.quiet()
    assert sorted(holder.values()) == [b"first", b"second"]
    world.put(queue, b"third", priority=1)
    world.put(queue, b"fourth", priority=3)
    world.quiet()
    world.queues.settling.requeue(holder.let_go())
    holder.room = 100
    queue.wake()
    world.quiet()


def test_what_is_given_back_waits_for_what_is_more_urgent(world: World) -> None:
    queue, holder = declared(world, priority_max=5), Holder(room=2)
    given_back(world, queue, holder)
    assert holder.values() == [b"fourth", b"second", b"first", b"third"]


def test_what_is_given_back_waits_for_what_is_more_urgent_and_wanted(world: World) -> None:
    queue, holder = declared(world, priority_max=5), Holder(room=2)
    queue.attach(Holder(), lambda message: False)
    given_back(world, queue, holder)
    assert holder.values() == [b"fourth", b"second", b"first", b"third"]
