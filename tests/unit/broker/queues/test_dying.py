"""Messages that are given up: rejected, expired, too many, tried too often."""

import msgspec

from mainstem.broker.queues import (
    HOLD,
    DeadLetterTarget,
    Message,
    Origin,
    Queue,
    QueueProperties,
    deaths_of,
    decode_headers,
    decode_origin,
    encode_headers,
)
from mainstem.broker.queues.queue import EXPIRED_AT_ONCE
from mainstem.broker.routes import Destination, DestinationKind
from mainstem.coordination.subscriptions.retry_policy import RetryPolicy
from mainstem.model.header_names import ORIGIN_HEADER
from tests.support.worlds.queue_world import NO_HEADERS, Holder, World

TO_DEAD = DeadLetterTarget("", "dead")


def declared(world: World, name: str = "q", **properties: object) -> Queue:
    return world.do(world.queues.declare("default", name, QueueProperties(**properties)))  # type: ignore[arg-type]


def dead_letters(world: World) -> Holder:
    holder = Holder()
    queue = world.queues.find("default", "dead")
    assert queue is not None
    queue.attach(holder)
    world.quiet()
    queue.detach(holder)
    return holder


def test_a_rejected_message_becomes_a_dead_letter_with_its_story(world: World) -> None:
    declared(world, "dead")
    queue, holder = declared(world, dead_letter=TO_DEAD), Holder()
    queue.attach(holder)
    world.queues.outbox.put([queue], encode_headers([("mine", b"1")]), b"body", key=b"k")
    world.quiet()
    world.queues.settling.reject(holder.let_go(), "rejected", "it is broken")
    world.quiet()
    assert world.values(queue) == []
    (letter,) = dead_letters(world).held
    assert (letter.value, letter.key) == (b"body", b"k")
    headers = dict(decode_headers(letter.headers))
    assert headers["mine"] == b"1"
    (death,) = deaths_of(letter.headers)
    assert (death.queue, death.reason, death.count, death.exchange, death.routing_keys) == (
        "q",
        "rejected",
        1,
        "",
        ["q"],
    )
    origin = decode_origin(headers[ORIGIN_HEADER] or b"")
    assert (origin.queue, origin.topic, origin.partition, origin.offset) == ("q", "q", 0, 0)
    assert (origin.reason, origin.deliveries, origin.error) == ("rejected", 1, "it is broken")


def test_without_a_target_it_is_gone(world: World) -> None:
    queue, holder = declared(world), Holder()
    queue.attach(holder)
    world.put(queue, b"1")
    world.quiet()
    world.queues.settling.reject(holder.let_go())
    world.quiet()
    world.crash()
    again = world.queues.find("default", "q")
    assert again is not None
    assert again.ready_count == 0


def test_a_dead_letter_for_a_queue_that_is_not_there_is_lost_unless_it_must_not_be(world: World) -> None:
    queue, holder = declared(world, dead_letter=TO_DEAD), Holder()
    safe = declared(world, "safe", kind="quorum", dead_letter=DeadLetterTarget("", "dead", "at-least-once"))
    queue.attach(holder)
    safe.attach(holder)
    world.put(queue, b"lost")
    world.put(safe, b"kept")
    world.quiet()
    world.queues.settling.reject(holder.let_go())
    world.quiet()
    assert (world.values(queue), world.values(safe)) == ([], [b"kept"])


def test_a_dead_letter_that_must_not_be_lost_waits_for_room_in_its_queue(world: World) -> None:
    dead = declared(world, "dead", length_max=1, overflow="reject-publish")
    target = DeadLetterTarget("", "dead", strategy="at-least-once")
    queue, holder = declared(world, dead_letter=target), Holder()
    queue.attach(holder)
    world.put(queue, b"1", b"2")
    world.quiet()
    world.queues.settling.reject(holder.let_go())
    world.quiet()
    assert (world.values(queue), world.values(dead)) == ([b"2"], [b"1"])
    world.do(world.queues.purge(dead))
    world.pass_time(6_000)
    world.queues.settling.reject(holder.let_go())
    world.quiet()
    assert (world.values(queue), world.values(dead)) == ([], [b"2"])


def test_messages_expire_at_the_head_without_consumers(world: World) -> None:
    declared(world, "dead")
    queue = declared(world, message_ttl_ms=100, dead_letter=TO_DEAD)
    for n in range(500):
        world.put(queue, b"%d" % n)
        if n % 50 == 0:
            world.end_turn()
    world.quiet()
    world.pass_time(50)
    assert queue.ready_count == 500
    world.pass_time(60)
    if world.is_late:
        world.pass_time(60)
    assert queue.ready_count == 0
    assert world.values(queue) == []
    letters = dead_letters(world)
    assert len(letters.held) == 500
    assert letters.values() == [b"%d" % n for n in range(500)]
    assert deaths_of(letters.held[0].headers)[0].reason == "expired"


def test_the_shorter_time_to_live_counts_and_a_head_holds_up_the_rest(world: World) -> None:
    queue = declared(world, message_ttl_ms=100)
    world.put(queue, b"long", ttl_ms=10_000)
    world.queues.outbox.put([queue], encode_headers([("mainstem-ttl", b"20")]), b"short", ttl_ms=20)
    world.quiet()
    world.pass_time(50)
    assert world.values(queue) == [b"long", b"short"], "only the head expires"
    world.pass_time(60)
    assert world.values(queue) == []


def test_expired_messages_are_not_given_out_after_a_restart(world: World) -> None:
    queue = declared(world)
    world.queues.outbox.put([queue], encode_headers([("mainstem-ttl", b"20")]), b"short", ttl_ms=20)
    world.put(queue, b"for good")
    world.quiet()
    world.crash()
    world.clock.advance(30)
    again, holder = world.queues.find("default", "q"), Holder()
    assert again is not None
    again.attach(holder)
    world.quiet()
    assert holder.values() == [b"for good"]


def test_what_does_not_wait_is_given_to_nobody_later(world: World) -> None:
    """Nor if it stood behind something that does."""
    queue = declared(world)
    world.put(queue, b"first")
    for number in range(3):
        world.queues.outbox.put([queue], encode_headers([("mainstem-ttl", b"0")]), b"now %d" % number, ttl_ms=0)
    world.put(queue, b"last")
    world.quiet()
    holder = Holder(room=1)
    queue.attach(holder)
    world.quiet()
    assert holder.values() == [b"first"]
    world.queues.settling.settle(holder.let_go())
    queue.wake()
    world.quiet()
    assert holder.values() == [b"last"]
    assert queue.ready_count == 0


def test_what_does_not_wait_is_given_to_who_has_room_or_to_nobody(world: World) -> None:
    queue, holder = declared(world, message_ttl_ms=0), Holder(room=1)
    queue.attach(holder)
    world.quiet()
    world.put(queue, b"warm up")
    world.quiet()
    world.queues.settling.settle(holder.let_go())
    world.put(queue, b"1", b"2")
    world.quiet()
    assert holder.values() == [b"1"]
    assert world.values(queue) == [b"1"]


def test_the_head_makes_room(world: World) -> None:
    declared(world, "dead")
    queue = declared(world, length_max=3, dead_letter=TO_DEAD)
    world.put(queue, *(b"%d" % n for n in range(10)))
    world.quiet()
    assert world.values(queue) == [b"7", b"8", b"9"]
    assert dead_letters(world).values() == [b"%d" % n for n in range(7)]


def test_bytes_are_limited_too(world: World) -> None:
    queue = declared(world, bytes_max=100)
    for n in range(10):
        world.put(queue, b"%d" % n * 30)
        world.quiet()
    assert [value[:1] for value in world.values(queue)] == [b"7", b"8", b"9"]


def test_a_full_queue_refuses(world: World) -> None:
    declared(world, "dead")
    queue = declared(world, length_max=2, overflow="reject-publish")
    kept = declared(world, "kept", length_max=2, overflow="reject-publish-dlx", dead_letter=TO_DEAD)
    world.do(world.queues.open(queue))
    world.do(world.queues.open(kept))
    assert [world.queues.outbox.put([queue], NO_HEADERS, b"%d" % n) for n in range(4)] == [0, 0, 1, 1]
    assert [world.queues.outbox.put([kept], NO_HEADERS, b"%d" % n) for n in range(3)] == [0, 0, 1]
    world.quiet()
    assert world.queues.outbox.put([queue], NO_HEADERS, b"x") == 1
    assert (world.values(queue), world.values(kept)) == ([b"0", b"1"], [b"0", b"1"])
    letters = dead_letters(world)
    assert letters.values() == [b"2"]
    assert deaths_of(letters.held[0].headers)[0].reason == "maxlen"
    holder = Holder()
    queue.attach(holder)
    world.quiet()
    assert world.queues.outbox.put([queue], NO_HEADERS, b"room") == 0, "what is given out does not count"


def test_back_pressure_takes_and_tells_to_wait(world: World) -> None:
    queue = declared(world, length_max=2, overflow="back-pressure")
    world.do(world.queues.open(queue))
    assert [world.queues.outbox.put([queue], NO_HEADERS, b"%d" % n) for n in range(3)] == [0, 0, 2]
    world.quiet()
    told: list[bool] = []
    world.queues.outbox.when_relieved(lambda: told.append(True), [queue])
    world.put(declared(world, "other"), b"1")
    world.quiet()
    assert not told
    holder = Holder()
    queue.attach(holder)
    world.quiet()
    assert told
    assert len(world.values(queue)) == 3


def test_a_message_that_fails_too_often_is_given_up(world: World) -> None:
    declared(world, "dead")
    queue, holder = declared(world, kind="quorum", delivery_limit=2, dead_letter=TO_DEAD), Holder()
    queue.attach(holder)
    world.put(queue, b"1")
    for _ in range(3):
        world.quiet()
        world.queues.settling.requeue(holder.let_go())
    world.quiet()
    assert [deliveries for _, deliveries in holder.told] == [0, 1, 2]
    (letter,) = dead_letters(world).held
    assert deaths_of(letter.headers)[0].reason == "delivery_limit"


def test_a_message_goes_in_circles_only_while_somebody_rejects_it(world: World) -> None:
    first = declared(world, "first", message_ttl_ms=10, dead_letter=DeadLetterTarget("", "second"))
    declared(world, "second", message_ttl_ms=10, dead_letter=DeadLetterTarget("", "first"))
    world.put(first, b"1")
    world.pass_time(12)
    assert world.values(first) == []
    world.pass_time(12)
    for name in ("first", "second"):
        queue = world.queues.find("default", name)
        assert queue is not None
        assert world.values(queue) == [], "it came back to where it died, and nobody had rejected it"


def test_counts_of_the_same_death_add_up(world: World) -> None:
    queue = declared(world, dead_letter=DeadLetterTarget("", "q"))
    holder = Holder()
    queue.attach(holder)
    world.put(queue, b"1")
    for _ in range(3):
        world.quiet()
        world.queues.settling.reject(holder.let_go())
    world.quiet()
    (death,) = deaths_of(holder.held[0].headers)
    assert (death.reason, death.count) == ("rejected", 3)


def test_a_message_rests_before_it_is_tried_again_across_a_restart(world: World) -> None:
    queue, holder = declared(world, retry=RetryPolicy(kind="fixed", delay_ms=1000, retries_max=2)), Holder()
    queue.attach(holder)
    world.put(queue, b"1", b"2")
    world.quiet()
    world.queues.settling.requeue(holder.let_go(1))
    world.pass_time(500)
    assert holder.values() == [b"2"]
    world.crash()
    again, later = world.queues.find("default", "q"), Holder()
    assert again is not None
    again.attach(later)
    world.quiet()
    assert later.values() == [b"2"]
    world.pass_time(600)
    assert later.values() == [b"2", b"1"]
    assert later.held[1].failures == 1


def test_given_back_with_a_delay(world: World) -> None:
    queue, holder = declared(world), Holder()
    queue.attach(holder)
    world.put(queue, b"1")
    world.quiet()
    world.queues.settling.requeue(holder.let_go(), delay_ms=200)
    world.pass_time(150)
    assert not holder.held
    world.pass_time(60)
    assert holder.values() == [b"1"]


def test_a_lease_ends_unless_it_is_renewed(world: World) -> None:
    queue, holder = declared(world, lease_ms=100), Holder()
    queue.attach(holder)
    world.put(queue, b"1", b"2")
    world.quiet()
    old = list(holder.held)
    world.pass_time(60)
    queue.renew(old[:1])
    world.pass_time(60)
    assert holder.told == [(b"1", 0), (b"2", 0), (b"2", 1)]
    world.queues.settling.settle(old)
    world.quiet()
    assert world.values(queue) == [b"2"], "who came too late settles nothing"


def origin_of_letter(world: World) -> Origin:
    (letter,) = dead_letters(world).held
    return origin_in(letter)


def origin_in(letter: Message) -> Origin:
    return decode_origin(dict(decode_headers(letter.headers))[ORIGIN_HEADER] or b"")


def test_a_dead_letter_tells_of_every_attempt_with_its_time_and_error(world: World) -> None:
    declared(world, "dead")
    queue, holder = declared(world, dead_letter=TO_DEAD, delivery_limit=2), Holder()
    queue.attach(holder)
    world.put(queue, b"1")
    began = world.queues.now_ms()
    for error in ("no route", "", "disk is full"):
        world.quiet()
        world.pass_time(1_000)
        world.queues.settling.requeue(holder.let_go(), failed=True, error=error)
    world.quiet()
    origin = origin_of_letter(world)
    assert origin.reason == "delivery_limit"
    assert [attempt.error for attempt in origin.attempts] == ["no route", "", "disk is full"]
    times = [attempt.time_ms - began for attempt in origin.attempts]
    assert times[0] >= 1_000
    assert all(later - earlier >= 1_000 for earlier, later in zip(times, times[1:], strict=False))
    assert origin.error == "disk is full"
    assert not queue.lanes[0].cursor.attempts


def test_attempts_outlast_a_crash_and_only_the_last_are_kept(world: World) -> None:
    declared(world, "dead")
    queue, holder = declared(world, dead_letter=TO_DEAD), Holder()
    queue.attach(holder)
    world.put(queue, b"1", b"2")
    world.quiet()
    for number in range(20):
        (first, *others) = holder.let_go()
        world.queues.settling.requeue([first], failed=True, error=f"error {number}" + "é" * 2_000)
        world.queues.settling.requeue(others, failed=False)
        world.quiet()
    world.crash()
    world.start()
    found = world.queues.find("default", "q")
    assert found is not None
    found.open()
    assert list(found.lanes[0].cursor.attempts) == [0]
    again = Holder()
    found.attach(again)
    world.quiet()
    world.queues.settling.settle(again.let_go(1))
    world.queues.settling.reject(again.let_go(), "rejected", "worse")
    world.quiet()
    origin = origin_of_letter(world)
    assert [attempt.error for attempt in origin.attempts] == ["worse"]
    world.crash()
    world.start()
    found = world.queues.find("default", "q")
    assert found is not None
    found.open()
    assert not found.lanes[0].cursor.attempts


def test_no_more_attempts_and_no_longer_texts_are_kept_than_allowed(world: World) -> None:
    queue, holder = declared(world), Holder()
    queue.attach(holder)
    world.put(queue, b"1")
    world.quiet()
    for number in range(20):
        world.queues.settling.requeue(holder.let_go(), failed=True, error=f"{number} " + "é" * 2_000)
        world.quiet()
    attempts = queue.lanes[0].cursor.attempts[0]
    assert [attempt.error.split()[0] for attempt in attempts] == [str(number) for number in range(4, 20)]
    assert all(len(attempt.error.encode()) <= 1_024 for attempt in attempts)


def test_a_purge_forgets_attempts(world: World) -> None:
    queue, holder = declared(world), Holder()
    queue.attach(holder)
    world.put(queue, b"1")
    world.quiet()
    queue.detach(holder)
    world.queues.settling.requeue(holder.let_go(), failed=True)
    world.quiet()
    assert queue.lanes[0].cursor.attempts
    world.do(world.queues.purge(queue))
    assert not queue.lanes[0].cursor.attempts


def test_a_dead_letter_keeps_its_priority(world: World) -> None:
    declared(world, "dead", priority_max=9)
    queue, holder = declared(world, dead_letter=TO_DEAD, priority_max=5), Holder()
    queue.attach(holder)
    for priority in (1, 4):
        world.queues.outbox.put([queue], NO_HEADERS, str(priority).encode(), priority=priority)
    world.quiet()
    world.queues.settling.reject(holder.let_go())
    world.quiet()
    assert [(letter.value, letter.lane.number) for letter in dead_letters(world).held] == [(b"4", 4), (b"1", 1)]


def test_who_waits_for_one_full_queue_does_not_wait_for_another(world: World) -> None:
    one, two = (declared(world, name, length_max=1, overflow="back-pressure") for name in ("one", "two"))
    for queue in (one, two):
        world.queues.outbox.put([queue], NO_HEADERS, b"1")
        assert world.queues.outbox.put([queue], NO_HEADERS, b"2") == HOLD
    told: list[str] = []
    world.queues.outbox.when_relieved(lambda: told.append("one"), {one})
    world.queues.outbox.when_relieved(lambda: told.append("both"), {one, two})
    world.quiet()
    assert told == []
    for queue, expected in ((one, ["one"]), (two, ["one", "both"])):
        holder = Holder()
        queue.attach(holder)
        world.quiet()
        assert told == expected


def test_the_first_dead_letters_do_not_wait_for_the_last(world: World) -> None:
    declared(world, "dead")
    queue = declared(world, dead_letter=TO_DEAD, message_ttl_ms=100)
    queue.attach(Holder(room=0))  # who is there keeps more of it in memory
    world.put(queue, *(b"%d" % n for n in range(1_000)))
    world.quiet()
    world.clock.advance(101)
    assert queue.expire_head() > world.queues.now_ms()
    assert 0 < 1_000 - queue.ready_count <= EXPIRED_AT_ONCE
    world.pass_time(20)
    assert queue.ready_count == 0
    assert dead_letters(world).values() == [b"%d" % n for n in range(1_000)]


def test_letters_of_the_same_headers_follow_what_changes(world: World) -> None:
    """What was found out for the first of them holds until a route, a queue or a rule changes."""
    router = world.broker.routes.of("default")
    declared(world, "dead")
    declared(world, "other")
    queue, holder = declared(world, dead_letter=DeadLetterTarget("amq.fanout", None)), Holder()
    queue.attach(holder)

    def die() -> dict[str, int]:
        world.put(queue, b"1", b"2")
        world.quiet()
        world.queues.settling.reject(holder.let_go())
        world.quiet()
        found = [world.queues.find("default", name) for name in ("dead", "other")]
        return {one.name: one.ready_count for one in found if one is not None}

    assert die() == {"dead": 0, "other": 0}
    world.do(router.bind("amq.fanout", Destination(DestinationKind.QUEUE, "dead"), "", {}, durable=True))
    assert die() == {"dead": 2, "other": 0}
    world.do(router.bind("amq.fanout", Destination(DestinationKind.QUEUE, "other"), "", {}, durable=True))
    assert die() == {"dead": 4, "other": 2}
    world.queues.set_rules(queue, msgspec.structs.replace(queue.rules, dead_letter=DeadLetterTarget("", "other")))
    assert die() == {"dead": 4, "other": 4}
    (other,) = [one for one in world.queues.all("default") if one.name == "other"]
    world.do(world.queues.delete(other))
    assert die() == {"dead": 4}
    declared(world, "other")
    assert die() == {"dead": 4, "other": 2}
    origins = {origin_in(letter).offset for letter in dead_letters(world).held}
    assert origins == {2, 3, 4, 5}, "each has its own"
