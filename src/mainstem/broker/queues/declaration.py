"""Declaring a queue: one commit makes the queue, its logs, and the topic as which clients see it. Its end: `deletion`."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from mainstem.broker.queues.log_configs import check_properties, queue_log_config, topic_configs
from mainstem.coordination.catalog.catalog import Topic, TopicEntry, put_topic
from mainstem.coordination.errors import InvalidQueue, PropertiesDiffer, QueueLocked
from mainstem.coordination.queues.entries import SCOPE, QueueEntry, put_queue
from mainstem.coordination.queues.names import topic_name_of
from mainstem.coordination.queues.properties import QueueProperties, first_difference
from mainstem.coordination.subscriptions.cursor import Cursor
from mainstem.storage.contract import CreateLog, Edge, Engine, LogConfig, Mutation

if TYPE_CHECKING:
    from mainstem.broker.catalog.topics import Topics
    from mainstem.broker.queues.queue import Queue
    from mainstem.broker.queues.queues import Queues
    from mainstem.broker.queues.stored import StoredQueues

ALTERABLE = (
    "message_ttl_ms",
    "expires_ms",
    "length_max",
    "bytes_max",
    "dead_letter",
    "delivery_limit",
    "lease_ms",
    "retry",
)
"""Besides `overflow`."""
KNOWN_MAX = 1_024
"""Properties and configurations that are remembered, to be shared by queues to come."""
T = TypeVar("T")


class QueueDeclaration:
    """For all queues."""

    def __init__(self, queues: Queues, engine: Engine, topics: Topics, stored: StoredQueues) -> None:
        self._queues = queues
        self._engine = engine
        self._topics = topics
        self._stored = stored
        self._underway: dict[tuple[str, str], asyncio.Future[None]] = {}
        topics.on_expand = self._topic_grows
        self._known: dict[object, Any] = {}

    async def declare(
        self, namespace: str, name: str, properties: QueueProperties, *, owner: object | None = None
    ) -> Queue:
        """The queue, there already or new; durable when answered.

        Raises PropertiesDiffer, QueueLocked, InvalidQueue, and other kinds of MainstemError.
        """
        check_properties(properties)
        while (underway := self._underway.get((namespace, name))) is not None:
            await asyncio.shield(underway)
        known = self._queues.find(namespace, name)
        if known is not None:
            return self._check_same(known, properties, owner)
        done = self._underway[namespace, name] = asyncio.get_running_loop().create_future()
        try:
            queue = await self._create(namespace, name, self._alike(properties), owner)
        finally:
            del self._underway[namespace, name]
            done.set_result(None)
        return queue

    async def alter(self, queue: Queue, properties: QueueProperties) -> None:
        """Other properties, of those that can change while there are messages; durable when answered. Raises InvalidQueue."""
        difference = first_difference(
            msgspec.structs.replace(properties, **dict.fromkeys(ALTERABLE), overflow="drop-head"),
            msgspec.structs.replace(queue.properties, **dict.fromkeys(ALTERABLE), overflow="drop-head"),
        )
        if difference is not None:
            raise InvalidQueue(f"{difference[0]} cannot be changed")
        check_properties(properties)
        entry = QueueEntry(
            queue.namespace,
            queue.name,
            self._alike(properties),
            queue.logs,
            queue.topic_name,
            is_borrowed=queue.is_borrowed,
            spare_log=queue.spare_log,
        )
        await self._engine.alter((), [put_queue(entry)])
        queue.properties = entry.properties
        self._queues.set_rules(queue, self._queues.rules_for(queue.namespace, queue.name, entry.properties))

    def _alike(self, wanted: T) -> T:
        """What is equal and was there before: queues have much in common, and each would keep its own."""
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        found: T = self._known.setdefault(wanted, wanted)
        return found

    def _check_same(self, queue: Queue, wanted: QueueProperties, owner: object | None) -> Queue:
        if queue.owner is not None and queue.owner is not owner:
            raise QueueLocked(queue.name)
        difference = first_difference(wanted, queue.properties)
        if difference is not None:
            raise PropertiesDiffer(*difference)
        queue.used_ms = self._queues.now_ms()
        return queue

    async def _create(self, namespace: str, name: str, properties: QueueProperties, owner: object | None) -> Queue:
        is_shown = not (properties.exclusive or properties.hidden)
        topic_name = topic_name_of(name) if is_shown else None
        async with self._topics.reserve(namespace, topic_name) as catalog:
            topic = None if topic_name is None else catalog.topics(namespace).get(topic_name)
            if topic is not None:
                return await self._borrow(namespace, name, properties, topic)
            has_spare = properties.kind == "quorum"  # for urgent messages, should there be any
            numbers, next_log = catalog.take_logs(properties.lanes + has_spare)
            logs, spare_log = numbers[: properties.lanes], numbers[-1] if has_spare else 0
            configs = topic_configs(properties, self._queues.settings)
            config = self._alike(queue_log_config(properties, configs))
            state = [next_log]
            if topic_name is not None:
                state.append(
                    put_topic(TopicEntry(namespace, topic_name, uuid.uuid4().bytes, logs, configs, is_queue=True))
                )
            entry = QueueEntry(namespace, name, properties, logs, topic_name, is_borrowed=False, spare_log=spare_log)
            state.append(put_queue(entry))
            show_topic = self._topics.prepare(state[1:])
            await self._engine.alter([CreateLog(number, config) for number in logs], state)
            show_topic()
        return self._queues.add(entry, owner)

    async def _borrow(self, namespace: str, name: str, properties: QueueProperties, topic: Topic) -> Queue:
        """A queue on a topic that is there: it begins at the topic's end."""
        if properties.priority_max and properties.lanes != len(topic.logs):
            raise InvalidQueue(
                f"topic {topic.name} has {len(topic.logs)} partitions: a queue on it cannot have {properties.lanes} priorities"
            )
        state: list[Mutation] = []
        for number in topic.logs:
            end = await self._engine.offset_at(number, Edge.END)
            state += Cursor(number, end.offset).take_changes(SCOPE)
            self._stored.put_floor(number, end.offset)
        entry = QueueEntry(namespace, name, properties, topic.logs, topic.name, is_borrowed=True)
        await self._engine.alter((), [*state, put_queue(entry)])
        return self._queues.add(entry)

    def log_config(self, queue: Queue, *, is_rewound: bool = False) -> LogConfig:
        """What the logs of a queue promise, with later changes; retention takes nothing from a rewound queue."""
        topic = None if queue.topic_name is None else self._topics.named(queue.namespace).get(queue.topic_name)
        configs = topic_configs(queue.rules, self._queues.settings)
        if topic is not None and queue.properties.kind != "stream":
            configs |= topic.configs
        config = queue_log_config(queue.properties, configs)
        return msgspec.structs.replace(config, delete=False) if is_rewound else config

    # Topics

    def keep_up(self) -> None:
        """Topics that have grown just before the last run ended: their queues are to read all of them."""
        for namespace in self._queues.namespaces():
            for queue in self._queues.all(namespace):
                if queue.is_borrowed and queue.topic_name is not None:
                    topic = self._topics.named(namespace).get(queue.topic_name)
                    if topic is not None:
                        self._grow(queue, topic)

    def _topic_grows(self, topic: Topic) -> None:
        """New partitions are read from their beginning."""
        queue = self._queues.of_topic(topic)
        if queue is not None and queue.is_borrowed:
            self._grow(queue, topic)

    def _grow(self, queue: Queue, topic: Topic) -> None:
        added = topic.logs[len(queue.logs) :]
        if not added:
            return
        queue.logs = topic.logs
        if queue.lanes:
            queue.lanes += [self._queues.lanes.open(queue, topic.logs.index(number), number) for number in added]
            queue.is_plain = False
        queue.wake()
        entry = QueueEntry(queue.namespace, queue.name, queue.properties, topic.logs, topic.name, is_borrowed=True)
        self._queues.outbox.mutate([put_queue(entry)])
