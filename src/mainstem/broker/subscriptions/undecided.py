"""Messages that are stored, and shown to nobody until their producer decides: published or forgotten.

A message waits in a hidden topic, which one subscription reads. To decide is to settle it there and to publish it, or not, in one
commit: so it is decided once, and what was not decided is there again after a restart. A producer that does not decide is asked,
again and again; after too many questions the message is set aside.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE, NewTopic, Topic
from mainstem.broker.clock import Timer
from mainstem.broker.queues import Message, Queue, QueueProperties, decode_headers
from mainstem.broker.records.publication import NewRecord, seal
from mainstem.broker.subscriptions.topic_subscriptions import SubscriptionWish
from mainstem.coordination.commit_addition import SealedAddition
from mainstem.model.errors import MainstemError, PeerError
from mainstem.storage.contract import Append, Edge

if TYPE_CHECKING:
    from mainstem.broker.broker import Broker

NAMESPACE, READER = "undecided", "deciding"
FACTS_HEADER = "mainstem-undecided"
HELD_MAX, HELD_BYTES_MAX = 10_000, 64 << 20
"""Messages that wait in memory for a decision; others wait on disk."""
ARRIVAL_S = 5.0
"""How long a decision waits for its message to come out of the log."""


class UnknownUndecided(PeerError):
    """There is no such message, or it was decided before."""


class UndecidedRules(msgspec.Struct, frozen=True, kw_only=True):
    """When producers are asked."""

    first_check_ms: int = 6_000
    check_interval_ms: int = 30_000
    checks_max: int = 15
    aside: str = ""
    """The topic for messages that were never decided; empty: they are forgotten."""


class UndecidedFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is stored with a message."""

    topic: str
    partition: int
    group: str = ""
    """Who can be asked; opaque here."""
    timestamp_ms: int = -1
    first_check_ms: int | None = None
    namespace: str = DEFAULT_NAMESPACE


class UndecidedMessage:
    """One that waits."""

    __slots__ = ("checks", "facts", "headers", "message", "timer")

    def __init__(self, message: Message, facts: UndecidedFacts, headers: list[tuple[str, bytes | None]]) -> None:
        self.message = message
        self.facts = facts
        self.headers = headers
        self.checks = 0
        self.timer: Timer | None = None


Ask = Callable[[UndecidedMessage], bool]
"""Asks the producer of a message; whether somebody could be asked."""


class _Publication:
    """What is published with the decision."""

    def __init__(self, appends: Sequence[Append]) -> None:
        self._appends = appends

    def seal(self) -> SealedAddition:
        """All of it."""
        return SealedAddition(self._appends)

    def resolved(self, outcome: Sequence[int] | MainstemError) -> None:
        """Who decided hears of it by other ways."""


class Undecided:
    """Of one kind of producers; itself the consumer of its subscription."""

    priority, is_exclusive = 0, False

    def __init__(self, broker: Broker, name: str, rules: UndecidedRules) -> None:
        self._broker = broker
        self._name = name
        self._rules = rules
        self._queue: Queue | None = None
        self._opening = asyncio.Lock()
        self._held: dict[int, UndecidedMessage] = {}
        self._arrivals: dict[int, asyncio.Event] = {}
        self.room, self.room_bytes = HELD_MAX, HELD_BYTES_MAX
        self.on_check: list[Ask] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def exists(self) -> bool:
        """Whether anything was ever undecided here."""
        return self._name in self._broker.topics.named(NAMESPACE)

    async def open(self) -> Topic:
        """Begin to give messages out. Raises kinds of MainstemError."""
        async with self._opening:
            topics = self._broker.topics
            topic = await topics.ensure(NewTopic(self._name, 1, {"max.message.bytes": str(128 << 20)}, NAMESPACE))
            if self._queue is None:
                wish = SubscriptionWish(NAMESPACE, self._name, READER, QueueProperties(), start=Edge.START)
                queue = await self._broker.topic_subscriptions.open(wish)
                await self._broker.queues.open(queue)
                self._queue = queue
                queue.attach(self)
            return topic

    async def put(self, record: NewRecord, facts: UndecidedFacts) -> tuple[int, int]:
        """Store a message; answers its log and offset once it is durable. Raises kinds of MainstemError."""
        topic = await self.open()
        headers = [*record.headers, (FACTS_HEADER, msgspec.json.encode(facts))]
        published = await self._broker.publications.publish(
            topic, [record._replace(headers=headers, partition=0, time_ms=-1)]
        )
        return topic.logs[0], published.positions[0].offset

    async def decide(self, offset: int, *, is_published: bool) -> None:
        """Durable when answered. Raises UnknownUndecided, and kinds of MainstemError."""
        waiting = await self._find(offset)
        await self._decide(waiting, waiting.facts.namespace, waiting.facts.topic if is_published else "")

    async def _find(self, offset: int) -> UndecidedMessage:
        await self.open()
        if offset not in self._held:
            arrival = self._arrivals.setdefault(offset, asyncio.Event())
            try:
                async with asyncio.timeout(ARRIVAL_S):
                    await arrival.wait()
            except TimeoutError:
                pass
            finally:
                self._arrivals.pop(offset, None)
        found = self._held.get(offset)
        if found is None:
            raise UnknownUndecided(f"message {offset} does not wait for a decision")
        return found

    async def _decide(self, waiting: UndecidedMessage, namespace: str, name: str) -> None:
        message, facts = waiting.message, waiting.facts
        del self._held[message.offset]  # From now on nobody else decides.
        if waiting.timer is not None:
            waiting.timer.cancel()
        topic = self._broker.topics.named(namespace).get(name)
        appends: Sequence[Append] = ()
        if topic is not None:
            partition = facts.partition if facts.partition < len(topic.logs) else 0
            record = NewRecord(message.key, bytes(message.value), waiting.headers, partition, facts.timestamp_ms)
            appends = seal(topic, [record], [partition], self._broker.clock.now_ms()).appends
        try:
            await self._broker.queues.outbox.commit_transaction(
                [], lambda: self._broker.queues.settling.settle([message]), _Publication(appends)
            )
        except MainstemError:
            self._hold(waiting)
            raise
        self._make_room(message)

    def _make_room(self, message: Message) -> None:
        self.room += 1
        self.room_bytes += len(message.value)
        if self._queue is not None:
            self._queue.wake()

    # What the queue calls

    def deliver(self, queue: Queue, messages: list[Message]) -> None:
        """They wait for a decision."""
        for message in messages:
            self.room -= 1
            self.room_bytes -= len(message.value)
            headers = list(decode_headers(message.headers))
            stored = next((value for name, value in headers if name == FACTS_HEADER), None)
            facts = msgspec.json.decode(bytes(stored or b"{}"), type=UndecidedFacts)
            self._hold(UndecidedMessage(message, facts, [one for one in headers if one[0] != FACTS_HEADER]))
        self.room_bytes = max(self.room_bytes, 0)

    def cancelled(self) -> None:
        """The hidden topic is gone."""
        self._held.clear()
        self._queue = None

    def activated(self, is_active: bool) -> None:
        """It makes no difference."""

    # Questions

    def _hold(self, waiting: UndecidedMessage) -> None:
        offset = waiting.message.offset
        self._held[offset] = waiting
        arrival = self._arrivals.get(offset)
        if arrival is not None:
            arrival.set()
        first_ms = waiting.facts.first_check_ms
        due_ms = waiting.message.timestamp_ms + (self._rules.first_check_ms if first_ms is None else first_ms)
        self._check_after(waiting, max(due_ms - self._broker.clock.now_ms(), 0))

    def _check_after(self, waiting: UndecidedMessage, delay_ms: int) -> None:
        waiting.timer = self._broker.clock.call_later(delay_ms / 1_000, lambda: self._check(waiting))

    def _check(self, waiting: UndecidedMessage) -> None:
        if self._held.get(waiting.message.offset) is not waiting:
            return
        if waiting.checks >= self._rules.checks_max:
            self._set_aside(waiting)
            return
        waiting.checks += any(ask(waiting) for ask in self.on_check)
        self._check_after(waiting, self._rules.check_interval_ms)

    def _set_aside(self, waiting: UndecidedMessage) -> None:
        async def work() -> None:
            if self._rules.aside:
                await self._broker.topics.ensure(NewTopic(self._rules.aside, 1))
            await self._decide(waiting, DEFAULT_NAMESPACE, self._rules.aside)

        task = asyncio.get_running_loop().create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
