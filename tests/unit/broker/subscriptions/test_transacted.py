"""Messages that a transaction settles with its end: with its records, once, and not at all when it is aborted."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from mainstem.broker.catalog.topics import NewTopic
from mainstem.broker.queues import Message, Queue
from mainstem.broker.subscriptions.pulling import PullRequest
from mainstem.broker.subscriptions.topic_subscriptions import SubscriptionWish
from mainstem.broker.transactions.transactions import Identity
from mainstem.coordination.errors import SettlementConflict
from mainstem.model.errors import InvalidBatch
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Append, Commit, Edge
from mainstem.wire.record_batch import Record, encode_batch
from tests.support.worlds.queue_world import World


@pytest.fixture
def world() -> Iterator[World]:
    world = World(5)
    for name in ("in", "out"):
        (made,) = world.do(world.broker.topics.create([NewTopic(name, 1)]))
        assert not isinstance(made, Exception)
    records = [Record(at, 1, None, value) for at, value in enumerate((b"a", b"b"))]
    (result,) = world.wait(world.engine.commit([Commit([Append(log_of(world, "in"), encode_batch(records))])]))
    assert not isinstance(result, Exception)
    yield world
    world.close()


def log_of(world: World, topic: str) -> int:
    return world.broker.topics.get(topic).logs[0]


def opened(world: World) -> Queue:
    wish = SubscriptionWish("default", "in", "s", start=Edge.START)
    return world.do(world.broker.topic_subscriptions.open(wish))


def pull(world: World, queue: Queue) -> list[Message]:
    return world.do(world.broker.pulling.take(queue, PullRequest(10, lease_ms=1_000)))


def values(messages: list[Message]) -> list[bytes]:
    return [bytes(message.value) for message in messages]


def begin(world: World, name: str) -> Identity:
    identity = world.do(world.broker.transactions.begin(name, 60_000, None))
    world.do(world.broker.transactions.add(name, identity, [log_of(world, "out")]))
    return identity


def end(world: World, name: str, identity: Identity) -> None:
    commit_by = functools.partial(world.broker.transacted.commit, name)
    world.do(world.broker.transactions.end(name, identity, commit=True, raises_epoch=False, commit_by=commit_by))


def test_the_end_of_a_transaction_settles_what_it_holds(world: World) -> None:
    queue = opened(world)
    identity = begin(world, "x")
    a, b = pull(world, queue)
    world.broker.transacted.add("x", [a])
    world.queues.settling.requeue([a, b], failed=False)  # its consumer is gone
    world.pass_time(5_000)
    assert values(pull(world, queue)) == [b"b"], "no lease ends, and nobody else is given it"
    assert queue.lanes[0].cursor.floor == 0
    end(world, "x", identity)
    assert queue.lanes[0].cursor.floor == 1
    world.crash()
    assert values(pull(world, opened(world))) == [b"b"]


def test_two_transactions_do_not_settle_the_same(world: World) -> None:
    queue = opened(world)
    begin(world, "x")
    a, b = pull(world, queue)
    world.broker.transacted.add("x", [a])
    with pytest.raises(SettlementConflict):
        world.broker.transacted.add("y", [b, a])
    world.broker.transacted.add("y", [b])  # nothing of the refused call is left
    world.broker.transacted.abort("x")
    assert values(pull(world, queue)) == [b"a"]
    world.broker.transacted.abort("y")
    assert values(pull(world, queue)) == [b"b"]


def test_a_crash_before_the_end_gives_out_again(world: World) -> None:
    queue = opened(world)
    begin(world, "x")
    world.broker.transacted.add("x", pull(world, queue))
    world.quiet()
    world.crash()
    assert values(pull(world, opened(world))) == [b"a", b"b"]


class Refusing:
    """An engine that refuses its next commit."""

    def __init__(self, inner: object) -> None:
        self._inner = inner
        self.is_refusing = True

    def commit(self, commits: list[Commit], **how: object) -> Answer[list[object]]:
        if not self.is_refusing:
            return self._inner.commit(commits, **how)  # type: ignore[attr-defined, no-any-return]
        self.is_refusing = False
        answer: Answer[list[object]] = Answer()
        answer.resolve([InvalidBatch("refused") for _ in commits])
        return answer

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def test_a_refused_end_is_tried_again_with_all_that_it_settles(world: World) -> None:
    queue = opened(world)
    identity = begin(world, "x")
    world.broker.transacted.add("x", pull(world, queue))
    world.queues.outbox._engine = Refusing(world.engine)  # type: ignore[assignment]
    with pytest.raises(InvalidBatch):
        end(world, "x", identity)
    assert (queue.lanes[0].cursor.floor, pull(world, queue)) == (0, [])
    end(world, "x", identity)
    assert queue.lanes[0].cursor.floor == 2
    world.crash()
    assert pull(world, opened(world)) == []
