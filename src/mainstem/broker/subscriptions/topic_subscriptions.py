"""Subscriptions of topics by name: many of one topic, each with its own place, consumers and rules.

A subscription is a queue that is not published to: the same driver pushes to its consumers, and lets others pull from it
(`pulling`). It is loaded when it is first opened; until then it costs an entry of the index.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from mainstem.broker.catalog.topics import Topic, Topics
from mainstem.broker.dead_letters.record_letters import RecordLetters
from mainstem.broker.queues import Queue, QueueProperties, Queues
from mainstem.broker.queues.delivery.sieve import Sieve
from mainstem.broker.queues.stored import StoredLogs
from mainstem.coordination.dead_letters.targets import LetterTopic
from mainstem.coordination.errors import SubscriptionBusy, SubscriptionExists, UnknownSubscription, UnknownTopic
from mainstem.coordination.queues.entries import QueueEntry, put_given
from mainstem.coordination.queues.topic_subscription import (
    ALL_PARTITIONS,
    INDEX_SCOPE,
    SubscriptionEntry,
    SubscriptionKey,
    decode_number,
    decode_subscription,
    put_subscription,
    scope_of,
)
from mainstem.coordination.subscriptions.subscribed_log import SubscribedLog
from mainstem.storage.contract import Edge, Engine, Mutation, Place

__all__ = ["ALL_PARTITIONS", "Subscription", "SubscriptionWish", "TopicSubscriptions"]

SUBSCRIPTIONS_MAX = 100_000
"""Of all topics together."""


class SubscriptionWish(NamedTuple):
    """What a client wants to subscribe to, and how."""

    namespace: str
    topic: str
    name: str
    properties: QueueProperties = QueueProperties()
    """`ordering` is its kind; `durable`: whether it outlasts its consumers and the broker; limits, retries and leases."""
    partition: int = ALL_PARTITIONS
    start: Place | int = Edge.END
    """Where a new one begins: a place of each log, or an offset."""
    letter_topic: str = ""
    sieve: Sieve | None = None


class Subscription:
    """One subscription, open or not."""

    __slots__ = ("entry", "is_kept", "number", "queue")

    def __init__(self, number: int, entry: SubscriptionEntry) -> None:
        self.number = number
        self.entry = entry
        self.queue: Queue | None = None
        """What gives its messages out, once it was opened."""
        self.is_kept = False
        """Whether it stays without consumers, although it is not durable."""


class TopicSubscriptions:
    """All of a broker."""

    def __init__(self, engine: Engine, topics: Topics, queues: Queues, letters: RecordLetters) -> None:
        self._engine = engine
        self._topics = topics
        self._queues = queues
        self._parts = msgspec.structs.replace(queues.parts, deletion=self)
        self._by_key: dict[SubscriptionKey, Subscription] = {}
        self._by_queue: dict[Queue, Subscription] = {}
        self._next = 1
        self._changes_lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        queues.settling.topic_letter = letters.of_message
        self._queue_grows, topics.on_expand = topics.on_expand, self._topic_grows
        self._queue_ends, topics.on_delete = topics.on_delete, self._topic_deleted

    async def load(self) -> None:
        """Take back which there are; those whose topic is gone are removed."""
        gone: list[Subscription] = []
        for key, value in (await self._engine.load(INDEX_SCOPE)).entries.items():
            subscription = Subscription(decode_number(key), decode_subscription(value))
            entry = subscription.entry
            self._next = max(self._next, subscription.number + 1)
            topic = self._topics.named(entry.namespace).get(entry.topic)
            if topic is None or not set(entry.logs) <= set(topic.logs):
                gone.append(subscription)
                continue
            self._by_key[entry.key] = subscription
            self._grow(subscription, topic)
        for subscription in gone:
            await self._engine.alter((), await self._decide_removal(subscription))

    # Questions

    def find(self, namespace: str, topic: str, name: str, partition: int = ALL_PARTITIONS) -> Subscription | None:
        """The one of this name."""
        return self._by_key.get((namespace, topic, name, partition))

    def all(self) -> list[Subscription]:
        """Of every topic."""
        return list(self._by_key.values())

    def of_topic(self, namespace: str, topic: str) -> list[Subscription]:
        """All of a topic, and of its partitions."""
        return [one for one in self._by_key.values() if (one.entry.namespace, one.entry.topic) == (namespace, topic)]

    # Life

    async def open(self, wish: SubscriptionWish) -> Queue:
        """What gives its messages out; made where there is none. Durable when answered.

        One that nobody is attached to takes the kind and rules that are wished. Raises UnknownTopic, SubscriptionBusy.
        """
        async with self._changes_lock:
            known = self._by_key.get((wish.namespace, wish.topic, wish.name, wish.partition))
            subscription = await self._create(wish) if known is None else known
            if subscription.queue is None:
                await self._open(subscription)
            elif subscription.entry.properties != wish.properties:
                if subscription.queue.consumers.all:
                    raise SubscriptionBusy(f"subscription {wish.name} has consumers and is of another kind")
                await self._queues.outbox.wait_durable()
                self._close(subscription)
            if subscription.entry.properties != wish.properties:
                self._close(subscription)
                await self._change(subscription, properties=wish.properties)
                await self._open(subscription)
            assert subscription.queue is not None
            subscription.queue.sieve = wish.sieve
            return subscription.queue

    async def load_queue(self, subscription: Subscription) -> None:
        """Make what gives its messages out, if it is not there."""
        async with self._changes_lock:
            if subscription.queue is None:
                await self._open(subscription)

    async def _create(self, wish: SubscriptionWish) -> Subscription:
        topic = self._topics.named(wish.namespace).get(wish.topic)
        if topic is None or wish.partition >= len(topic.logs):
            raise UnknownTopic(f"topic {wish.topic}, partition {wish.partition}")
        if len(self._by_key) >= SUBSCRIPTIONS_MAX:
            raise SubscriptionBusy(f"there are {SUBSCRIPTIONS_MAX} subscriptions, which is as many as may be")
        logs = topic.logs if wish.partition == ALL_PARTITIONS else (topic.logs[wish.partition],)
        entry = SubscriptionEntry(
            wish.namespace, wish.topic, wish.name, wish.partition, logs, wish.properties, wish.letter_topic
        )
        subscription = Subscription(self._next, entry)
        self._next += 1
        scope = scope_of(subscription.number)
        places = {log: await self._place(log, wish.start) for log in logs}
        if wish.properties.durable:
            floors = [m for log, offset in places.items() for m in SubscribedLog(log, offset).take_changes(scope)]
            await self._engine.alter((), [put_subscription(subscription.number, entry), *floors])
        self._by_key[entry.key] = subscription
        stored = StoredLogs(scope)
        for log, offset in places.items():
            stored.put_floor(log, offset)
        self._make(subscription, stored)
        return subscription

    async def _place(self, log: int, start: Place | int) -> int:
        if isinstance(start, int):
            first, end = [(await self._engine.offset_at(log, edge)).offset for edge in (Edge.START, Edge.END)]
            return min(max(start, first), end)
        found = await self._engine.offset_at(log, start)
        return found.offset if found.offset >= 0 else (await self._engine.offset_at(log, Edge.END)).offset

    async def _open(self, subscription: Subscription) -> None:
        self._make(subscription, await self._load(subscription))

    async def _load(self, subscription: Subscription) -> StoredLogs:
        stored = StoredLogs(scope_of(subscription.number))
        for key, value in (await self._engine.load(stored.scope)).entries.items():
            stored.load_entry(key, value)
        return stored

    def _make(self, subscription: Subscription, stored: StoredLogs) -> None:
        entry = subscription.entry
        form = QueueEntry(entry.namespace, entry.name, entry.properties, entry.logs, entry.topic, is_borrowed=True)
        queue = subscription.queue = Queue(self._parts, form, entry.properties, stored)
        if entry.letter_topic:
            queue.policy = queue.policy._replace(dead_letter=LetterTopic(entry.letter_topic, copies=True))
        self._by_queue[queue] = subscription

    def _close(self, subscription: Subscription) -> None:
        queue, subscription.queue = subscription.queue, None
        if queue is not None:
            del self._by_queue[queue]
            self._queues.end(queue)

    async def _change(self, subscription: Subscription, **changes: object) -> None:
        entry = msgspec.structs.replace(subscription.entry, **changes)
        if entry.properties.durable:
            await self._engine.alter((), [put_subscription(subscription.number, entry)])
        del self._by_key[subscription.entry.key]
        subscription.entry = entry
        self._by_key[entry.key] = subscription

    # Administration

    async def seek(self, subscription: Subscription, *, time_ms: int | None = None, offset: int | None = None) -> None:
        """Go to a time or an offset of each log. What consumers hold stays with them. Durable when answered."""
        async with self._changes_lock:
            if subscription.queue is None:
                await self._open(subscription)
            assert subscription.queue is not None
            await self._queues.seek(subscription.queue, time_ms=time_ms, offset=offset)

    async def rename(self, subscription: Subscription, name: str) -> None:
        """Give it another name; it stays where it is. Raises SubscriptionExists, SubscriptionBusy."""
        async with self._changes_lock:
            entry = subscription.entry
            if (entry.namespace, entry.topic, name, entry.partition) in self._by_key:
                raise SubscriptionExists(name)
            if subscription.queue is not None and subscription.queue.consumers.all:
                raise SubscriptionBusy(f"subscription {entry.name} has consumers")
            await self._change(subscription, name=name)
            if subscription.queue is not None:
                subscription.queue.name = name

    async def remove(self, subscription: Subscription, *, if_unused: bool = False) -> None:
        """Nothing is left of it; its consumers are cancelled. Raises UnknownSubscription, SubscriptionBusy."""
        async with self._changes_lock:
            await self._remove(subscription, if_unused=if_unused)

    async def _remove(self, subscription: Subscription, *, if_unused: bool) -> None:
        if self._by_key.get(subscription.entry.key) is not subscription:
            raise UnknownSubscription(subscription.entry.name)
        if if_unused and subscription.queue is not None and subscription.queue.consumers.all:
            raise SubscriptionBusy(f"subscription {subscription.entry.name} has consumers")
        state = await self._decide_removal(subscription)
        self._forget(subscription)
        self._queues.outbox.flush()  # What was settled before is behind us in the log.
        await self._engine.alter((), state)

    def _forget(self, subscription: Subscription) -> None:
        self._by_key.pop(subscription.entry.key, None)
        self._close(subscription)

    async def _decide_removal(self, subscription: Subscription) -> list[Mutation]:
        if not subscription.entry.properties.durable:
            return []
        queue = subscription.queue
        stored = await self._load(subscription) if queue is None else queue.stored
        return _removal(subscription, stored, [] if queue is None else [lane.cursor for lane in queue.lanes])

    def last_consumer_left(self, queue: Queue) -> None:
        """One that is not durable goes with its last consumer."""
        subscription = self._by_queue.get(queue)
        if subscription is not None and not (subscription.entry.properties.durable or subscription.is_kept):
            self._forget(subscription)

    def keep(self, subscription: Subscription, *, is_kept: bool) -> None:
        """Whether one that is not durable waits for consumers that come back; if not, and nobody has come, it goes."""
        subscription.is_kept = is_kept
        queue = subscription.queue
        is_alone = queue is not None and not queue.consumers.all
        if not is_kept and is_alone and not subscription.entry.properties.durable:
            self._forget(subscription)

    # Topics

    def _topic_grows(self, topic: Topic) -> None:
        self._queue_grows(topic)
        for subscription in self.of_topic(topic.namespace, topic.name):
            self._grow(subscription, topic)

    def _grow(self, subscription: Subscription, topic: Topic) -> None:
        """New partitions are read from their beginning."""
        entry = subscription.entry
        added = topic.logs[len(entry.logs) :]
        if entry.partition != ALL_PARTITIONS or not added:
            return
        subscription.entry = msgspec.structs.replace(entry, logs=topic.logs)
        if entry.properties.durable:
            self._queues.outbox.mutate([put_subscription(subscription.number, subscription.entry)])
        queue = subscription.queue
        if queue is not None:
            queue.logs = topic.logs
            if queue.lanes:
                first = len(entry.logs)
                queue.lanes += [self._queues.lanes.open(queue, first + at, number) for at, number in enumerate(added)]
                queue.is_plain = False
            queue.wake()

    def _topic_deleted(self, topic: Topic) -> tuple[Sequence[Mutation], Callable[[], None]]:
        """Its subscriptions go with it. What is stored of those that nobody opened goes with the next start."""
        state, finish = self._queue_ends(topic)
        gone = self.of_topic(topic.namespace, topic.name)
        removals = [mutation for one in gone for mutation in _removal_now(one)]

        def finish_all() -> None:
            finish()
            for one in gone:
                self._forget(one)

        return [*state, *removals], finish_all


def _removal(subscription: Subscription, stored: StoredLogs, cursors: Iterable[SubscribedLog]) -> list[Mutation]:
    scope = scope_of(subscription.number)
    known = {cursor.log: cursor for cursor in cursors}
    state = [put_subscription(subscription.number, None)]
    for log in subscription.entry.logs:
        cursor = known.get(log) or stored.take(log).cursor
        state += [*cursor.decide_forget(scope), put_given(scope, log, None)]
    return state


def _removal_now(subscription: Subscription) -> list[Mutation]:
    """What can be removed without a look at what is stored; the rest is removed by the next start, which finds no topic."""
    queue = subscription.queue
    if queue is None or not subscription.entry.properties.durable:
        return []
    return _removal(subscription, queue.stored, [lane.cursor for lane in queue.lanes])
