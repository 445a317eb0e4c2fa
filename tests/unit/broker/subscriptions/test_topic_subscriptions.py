"""Many subscriptions of one topic, by name: pushed to, pulled from, moved, renamed, removed, and there after a crash."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mainstem.broker.catalog.topics import NewTopic
from mainstem.broker.dead_letters.facts import origin_of
from mainstem.broker.queues import Message, Queue, QueueProperties
from mainstem.broker.queues.delivery.sieve import Sieve
from mainstem.broker.queues.reading import RESTING_MESSAGES_MAX
from mainstem.broker.subscriptions.pulling import PullRequest
from mainstem.broker.subscriptions.topic_subscriptions import Subscription, SubscriptionWish
from mainstem.coordination.errors import QueueBusy, SubscriptionBusy, SubscriptionExists, UnknownTopic
from mainstem.coordination.subscriptions.retry_policy import RetryPolicy
from mainstem.coordination.subscriptions.selector import compile_expression
from mainstem.storage.contract import Append, Commit, Edge
from mainstem.wire.messages.header_block import decode_headers
from mainstem.wire.record_batch import Record, encode_batch
from tests.support.worlds.queue_world import SMALL_LIMITS, Holder, World

NAMESPACE = "default"


@pytest.fixture(params=[False, True], ids=["at once", "late"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    world = World(7, SMALL_LIMITS, is_late=request.param)
    yield world
    world.close()


def topic(world: World, partitions: int = 1, name: str = "t") -> None:
    (made,) = world.do(world.broker.topics.create([NewTopic(name, partitions)]))
    assert not isinstance(made, Exception)


def publish(world: World, *values: bytes, partition: int = 0, keys: str = "", headers: object = ()) -> None:
    log = world.broker.topics.get("t").logs[partition]
    records = [
        Record(at, world.runtime.now_ms(), keys[at].encode() if keys else None, value, list(headers))  # type: ignore[call-overload]
        for at, value in enumerate(values)
    ]
    (result,) = world.wait(world.engine.commit([Commit([Append(log, encode_batch(records))])]))
    assert not isinstance(result, Exception)
    world.quiet()


def opened(world: World, name: str, **wish: object) -> Queue:
    properties = QueueProperties(
        **{key: wish.pop(key) for key in list(wish) if key in QueueProperties.__struct_fields__}
    )  # type: ignore[arg-type]
    return world.do(
        world.broker.topic_subscriptions.open(
            SubscriptionWish(NAMESPACE, "t", name, properties, **{"start": Edge.START} | wish)  # type: ignore[arg-type]
        )
    )


def found(world: World, name: str) -> Subscription:
    subscription = world.broker.topic_subscriptions.find(NAMESPACE, "t", name)
    assert subscription is not None
    return subscription


def attach(world: World, queue: Queue, **how: object) -> Holder:
    holder = Holder(**how)  # type: ignore[arg-type]
    queue.attach(holder)
    world.quiet()
    return holder


def settle(world: World, messages: list[Message]) -> None:
    world.queues.settling.settle(messages)
    world.quiet()


def pull(world: World, queue: Queue, count: int = 10, **how: object) -> list[Message]:
    return world.do(world.broker.pulling.take(queue, PullRequest(count, **how)))  # type: ignore[arg-type]


def values(messages: list[Message]) -> list[bytes]:
    return [bytes(message.value) for message in messages]


def test_each_subscription_is_given_all_and_keeps_its_own_place(world: World) -> None:
    topic(world, 2)
    publish(world, b"a", b"b", b"c")
    publish(world, b"d", partition=1)
    first, second = (attach(world, opened(world, name)) for name in ("one", "two"))
    late = attach(world, opened(world, "late", start=Edge.END))
    assert sorted(first.values()) == sorted(second.values()) == [b"a", b"b", b"c", b"d"]
    assert late.values() == []
    settle(world, [message for message in first.let_go() if bytes(message.value) in (b"a", b"c")])
    settle(world, second.let_go())
    publish(world, b"e")
    assert late.values() == [b"e"]
    world.crash()
    assert sorted(attach(world, opened(world, "one")).values()) == [b"b", b"d", b"e"]
    assert attach(world, opened(world, "two")).values() == [b"e"]


def test_what_is_of_one_partition_and_what_begins_at_an_offset(world: World) -> None:
    topic(world, 2)
    publish(world, b"a", b"b", b"c")
    publish(world, b"d", partition=1)
    assert attach(world, opened(world, "s", partition=1)).values() == [b"d"]
    assert attach(world, opened(world, "s", partition=0, start=2)).values() == [b"c"]
    with pytest.raises(UnknownTopic):
        opened(world, "s", partition=2)


def test_new_partitions_are_read_from_their_beginning(world: World) -> None:
    topic(world)
    opened(world, "closed")
    holder = attach(world, opened(world, "s", start=Edge.END))
    world.do(world.broker.topics.expand("t", 2))
    publish(world, b"x", partition=1)
    assert holder.values() == [b"x"]
    world.crash()
    assert attach(world, opened(world, "closed")).values() == [b"x"]


def test_exclusive_failover_and_their_priorities(world: World) -> None:
    topic(world)
    alone = opened(world, "alone", ordering="exclusive")
    attach(world, alone)
    with pytest.raises(QueueBusy):
        alone.attach(Holder())
    with pytest.raises(SubscriptionBusy):
        opened(world, "alone", ordering="shared")
    one_at_a_time = opened(world, "f", ordering="failover")
    low = attach(world, one_at_a_time, priority=1)
    publish(world, b"a")
    assert low.values() == [b"a"]
    high = attach(world, one_at_a_time, priority=2)
    publish(world, b"b")
    assert (low.values(), high.values()) == ([b"a"], []), "what the active one has, it may finish"
    world.queues.settling.settle(low.let_go())
    one_at_a_time.wake()
    world.quiet()
    assert (high.is_active, high.values()) == (True, [b"b"])
    one_at_a_time.detach(high)
    one_at_a_time.give_back(high.held)
    world.quiet()
    assert low.values() == [b"b"]


def test_the_kind_changes_while_nobody_is_attached(world: World) -> None:
    topic(world)
    publish(world, b"a", b"b")
    queue = opened(world, "s", ordering="exclusive")
    holder = attach(world, queue)
    settle(world, holder.let_go(1))
    queue.detach(holder)
    queue.give_back(holder.held)
    shared = opened(world, "s", ordering="shared")
    assert [sorted(attach(world, shared).values()), attach(world, shared).values()] == [[b"b"], []]
    world.crash()
    assert found(world, "s").entry.properties.ordering == "shared"


def test_a_key_in_work_or_at_rest_holds_back_its_followers(world: World) -> None:
    topic(world)
    publish(world, b"x1", b"y1", b"x2", b"y2", keys="xyxy")
    queue = opened(world, "s", ordering="key", retry=RetryPolicy(delay_ms=1_000))
    first = pull(world, queue)
    assert values(first) == [b"x1", b"y1", b"x2", b"y2"], "one consumer has them in order"
    world.queues.settling.requeue(first[1:], failed=False)
    assert values(pull(world, queue)) == [b"y1", b"y2"], "x1 is in work, so x2 waits"
    world.broker.pulling.retry_after(first[:1], 0)
    assert values(pull(world, queue)) == [], "x1 is at rest"
    world.pass_time(1_100)
    assert values(pull(world, queue)) == [b"x1", b"x2"]


def test_pulling_for_a_time_that_each_message_may_have_of_its_own(world: World) -> None:
    topic(world)
    publish(world, b"a", b"b", b"c")
    queue = opened(world, "s")
    a, b, c = pull(world, queue, lease_ms=1_000)
    world.broker.pulling.renew([b], 5_000)
    settle(world, [c])
    assert pull(world, queue) == []
    world.pass_time(1_100)
    (again,) = pull(world, queue, lease_ms=100_000)
    assert (bytes(again.value), again.deliveries, again.failures) == (b"a", 1, 1)
    settle(world, [a])  # too late: another has it
    assert queue.unsettled_count == 2
    world.pass_time(4_000)
    assert values(pull(world, queue)) == [b"b"]
    settle(world, [again])
    assert queue.lanes[0].cursor.floor == 1


def test_who_waits_is_given_the_first_that_comes(world: World) -> None:
    topic(world)
    queue = opened(world, "s")
    began = world.runtime.now_ms()
    assert pull(world, queue, wait_s=2.0) == []
    assert world.runtime.now_ms() - began >= 2_000
    world.runtime.call_later(0.5, lambda: publish_now(world, b"x"))
    assert values(pull(world, queue, wait_s=60.0)) == [b"x"]


def publish_now(world: World, value: bytes) -> None:
    log = world.broker.topics.get("t").logs[0]
    world.engine.commit([Commit([Append(log, encode_batch([Record(0, 1, None, value)]))])])


def test_given_back_after_a_time_that_outlasts_a_crash(world: World) -> None:
    topic(world)
    publish(world, b"a")
    queue = opened(world, "s")
    world.broker.pulling.retry_after(pull(world, queue), 10_000, "busy")
    world.quiet()
    world.crash()
    queue = opened(world, "s")
    assert pull(world, queue) == []
    world.pass_time(10_100)
    (message,) = pull(world, queue)
    assert (message.deliveries, message.failures) == (1, 1)


def test_a_selection_settles_what_is_not_selected(world: World) -> None:
    topic(world)
    publish(world, b"a", b"b", headers=[("TAGS", b"red")])
    publish(world, b"c", headers=[("TAGS", b"blue")])
    matches = compile_expression("TAGS = 'blue'")

    def selects(message: Message) -> bool:
        return matches({name: (content or b"").decode() for name, content in decode_headers(message.headers)})

    queue = opened(world, "s", sieve=Sieve(selects=selects))
    (message,) = pull(world, queue)
    assert bytes(message.value) == b"c"
    settle(world, [message])
    assert (queue.lanes[0].cursor.floor, world.ready_count(queue)) == (3, 0)


def test_who_pulls_may_want_some_and_leaves_the_others(world: World) -> None:
    topic(world)
    publish(world, b"a1", b"b1", b"a2")
    queue = opened(world, "s")
    assert values(pull(world, queue, wants=lambda message: bytes(message.value).startswith(b"b"))) == [b"b1"]
    assert values(pull(world, queue)) == [b"a1", b"a2"]


def test_records_that_rest_in_one_subscription_are_seen_by_others_at_once(world: World) -> None:
    topic(world)
    due_ms = world.runtime.now_ms() + 5_000
    publish(world, b"a", b"b", b"c")
    queue = opened(world, "s", sieve=Sieve(due_ms=lambda message: due_ms if bytes(message.value) != b"b" else 0))
    assert values(pull(world, queue)) == [b"b"]
    assert values(pull(world, opened(world, "plain"))) == [b"a", b"b", b"c"]
    world.quiet()
    world.crash()
    queue = opened(world, "s")
    assert values(pull(world, queue)) == [b"b"], "not settled"
    world.pass_time(5_100)
    assert values(pull(world, queue)) == [b"a", b"c"]


def test_what_rests_is_not_all_in_memory() -> None:
    world = World(3)
    topic(world)
    count = RESTING_MESSAGES_MAX + 500
    due_ms = world.runtime.now_ms() + 5_000
    publish(world, *[str(number).encode() for number in range(count)])
    queue = opened(world, "s", sieve=Sieve(due_ms=lambda message: due_ms))
    assert pull(world, queue, count) == []
    assert (len(queue.lanes[0].cursor.rests), len(queue.lanes[0].resting)) == (count, RESTING_MESSAGES_MAX)
    world.pass_time(5_100)
    given: list[bytes] = []
    while more := pull(world, queue, count):
        given += values(more)
        settle(world, more)
    assert sorted(map(int, given)) == list(range(count))
    assert queue.lanes[0].cursor.floor == count
    world.close()


def test_seek_rename_and_remove(world: World) -> None:
    topic(world)
    publish(world, b"a", b"b", b"c")
    queue = opened(world, "s")
    settle(world, pull(world, queue))
    subscriptions = world.broker.topic_subscriptions
    world.do(subscriptions.seek(found(world, "s"), offset=1))
    (message, _) = pull(world, queue)
    settle(world, [message])
    opened(world, "taken")
    with pytest.raises(SubscriptionExists):
        world.do(subscriptions.rename(found(world, "s"), "taken"))
    world.do(subscriptions.rename(found(world, "s"), "other"))
    world.crash()
    assert world.broker.topic_subscriptions.find(NAMESPACE, "t", "s") is None
    queue = opened(world, "other")
    assert values(pull(world, queue)) == [b"c"]
    holder = attach(world, queue)
    subscriptions = world.broker.topic_subscriptions
    with pytest.raises(SubscriptionBusy):
        world.do(subscriptions.remove(found(world, "other"), if_unused=True))
    world.do(subscriptions.remove(found(world, "other")))
    assert holder.is_cancelled
    world.crash()
    assert [one.entry.name for one in world.broker.topic_subscriptions.of_topic(NAMESPACE, "t")] == ["taken"]
    assert world.wait(world.engine.load("topic-subscriptions/1")).entries == {}


def test_one_that_is_not_durable_goes_with_its_last_consumer(world: World) -> None:
    topic(world)
    publish(world, b"a")
    queue = opened(world, "s", durable=False)
    holder = attach(world, queue)
    assert holder.values() == [b"a"]
    settle(world, holder.let_go())
    assert world.wait(world.engine.load("topic-subscriptions/1")).entries == {}
    queue.detach(holder)
    assert world.broker.topic_subscriptions.find(NAMESPACE, "t", "s") is None


def test_subscriptions_go_with_their_topic(world: World) -> None:
    topic(world)
    publish(world, b"a")
    holder = attach(world, opened(world, "s"))
    opened(world, "idle")
    world.do(world.broker.topics.delete(world.broker.topics.get("t")))
    world.quiet()
    assert holder.is_cancelled
    topic(world)
    world.crash()
    assert world.broker.topic_subscriptions.of_topic(NAMESPACE, "t") == []
    assert pull(world, opened(world, "s")) == []


def test_what_fails_too_often_is_written_to_a_topic_with_its_settling(world: World) -> None:
    topic(world)
    topic(world, name="dead")
    publish(world, b"a", keys="k", headers=[("h", b"1")])
    queue = opened(world, "s", delivery_limit=1, letter_topic="dead")
    for _ in range(2):
        world.queues.settling.requeue(pull(world, queue), error="no")
    world.quiet()
    assert (pull(world, queue), queue.lanes[0].cursor.floor) == ([], 1)
    world.crash()
    wish = SubscriptionWish(NAMESPACE, "dead", "look", start=Edge.START)
    (letter,) = pull(world, world.do(world.broker.topic_subscriptions.open(wish)))
    origin = origin_of(letter)
    assert origin is not None
    assert (bytes(letter.value), letter.key, origin.reason, origin.queue, origin.topic, origin.failures) == (
        b"a", b"k", "delivery_limit", "s", "t", 2,
    )  # fmt: skip
    assert ("h", b"1") in decode_headers(letter.headers)
