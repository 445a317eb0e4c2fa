"""How queues come and go: with their logs, the topic as which they are seen, their cursors and their bindings, in one commit."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from mainstem.broker.queues.queue import Queue
from mainstem.coordination.catalog import Topic, TopicEntry, put_topic
from mainstem.coordination.cursor import Cursor
from mainstem.coordination.errors import (
    InvalidQueue,
    PropertiesDiffer,
    QueueInUse,
    QueueLocked,
    QueueNotEmpty,
    UnknownQueue,
)
from mainstem.coordination.queue.entries import (
    SCOPE,
    QueueEntry,
    forget_queue,
    put_attempts,
    put_given,
    put_paused,
    put_queue,
    put_rest,
    put_rewound,
)
from mainstem.coordination.queue.names import topic_name_of
from mainstem.coordination.queue.properties import PRIORITY_MAX, QueueProperties, first_difference
from mainstem.coordination.topic_config import log_config
from mainstem.storage.answer import Answer
from mainstem.storage.contract import CreateLog, DeleteLog, Edge, Engine, LogChange, LogConfig, Mutation

if TYPE_CHECKING:
    from mainstem.broker.queues.queues import Queues
    from mainstem.broker.queues.settings import QueueSettings
    from mainstem.broker.queues.stored import StoredQueues
    from mainstem.broker.routes import Routes
    from mainstem.broker.topics import Topics

log = logging.getLogger(__name__)

BATCH_BYTES_MAX = 24 << 20
"""The largest message, with its headers; well below what one commit can carry."""
LET_GO_AT_ONCE = 500
KNOWN_MAX = 1_024
T = TypeVar("T")
"""Queues that are deleted in one commit."""


class _End(NamedTuple):
    """What the end of a queue comes to."""

    changes: list[LogChange]
    state: list[Mutation]
    finish: Callable[[], None]


class Declaring:
    """For all queues."""

    def __init__(self, queues: Queues, engine: Engine, topics: Topics, routes: Routes, stored: StoredQueues) -> None:
        self._queues = queues
        self._engine = engine
        self._topics = topics
        self._routes = routes
        self._stored = stored
        self._underway: dict[tuple[str, str], asyncio.Future[None]] = {}
        topics.on_delete = self._topic_ends
        topics.on_expand = self._topic_grows
        self._known: dict[object, Any] = {}

    # Coming

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
            await self._engine.alter([CreateLog(number, config) for number in logs], state)
            self._topics.replay(state[1:])
        queue = Queue(
            self._queues, namespace, name, properties, logs, topic_name=topic_name, owner=owner, spare_log=spare_log
        )
        self._queues.add(queue)
        return queue

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
        state.append(put_queue(QueueEntry(namespace, name, properties, topic.logs, topic.name, is_borrowed=True)))
        await self._engine.alter((), state)
        queue = Queue(self._queues, namespace, name, properties, topic.logs, topic_name=topic.name, is_borrowed=True)
        self._queues.add(queue)
        return queue

    def log_config(self, queue: Queue) -> LogConfig:
        """What the logs of a queue promise, with what was configured since."""
        topic = None if queue.topic_name is None else self._topics.named(queue.namespace).get(queue.topic_name)
        configs = topic_configs(queue.rules, self._queues.settings)
        if topic is not None and queue.properties.kind != "stream":
            configs |= topic.configs
        return queue_log_config(queue.properties, configs)

    # Going

    async def delete(self, queue: Queue, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Remove a queue; answers how many messages were waiting. Raises QueueInUse, QueueNotEmpty, UnknownQueue."""
        if queue.is_gone:
            raise UnknownQueue(queue.name)
        if if_unused and queue.consumers.all:
            raise QueueInUse(queue.name)
        count = queue.ready_count
        if if_empty and count:
            raise QueueNotEmpty(queue.name)
        await self._end(queue)
        return count

    def _end(self, queue: Queue) -> Answer[None]:
        end = self._decide_end(queue)
        self._queues.outbox.flush()  # What was published before is behind us in the log.
        answer = self._engine.alter(end.changes, end.state)
        self._queues.remove(queue)
        end.finish()
        return answer

    def delete_unused(self, queue: Queue) -> None:
        """Remove a queue that has had its time."""

        def done(answer: Answer[None]) -> None:
            if answer.error is not None:
                log.warning("queue %s could not be deleted: %s", queue.name, answer.error)

        if not queue.is_gone and not queue.consumers.all:
            self._end(queue).on_done(done)

    async def let_go(self, queues: Sequence[Queue]) -> None:
        """Remove many, which nobody uses."""
        for first in range(0, len(queues), LET_GO_AT_ONCE):
            some = queues[first : first + LET_GO_AT_ONCE]
            ends = [self._decide_end(queue) for queue in some]
            for queue in some:
                self._queues.remove(queue)
            changes = [change for end in ends for change in end.changes]
            await self._engine.alter(changes, [mutation for end in ends for mutation in end.state])
            for end in ends:
                end.finish()

    async def purge(self, queue: Queue) -> int:
        """Let all messages go that wait; answers how many. What was given out stays so."""
        queue.open()
        count = queue.ready_count
        for lane in queue.lanes:
            kept = sorted([*lane.unsettled, *lane.held.below(lane.end)])
            first = lane.cursor.floor
            for offset in [*kept, lane.end]:
                lane.cursor.settle_stretch(first, offset - 1)
                first = offset + 1
            lane.drop_window(lane.end)
            lane.count = len(kept)
            lane.forget_attempts([offset for offset in lane.attempts if offset not in lane.unsettled])
            for offset in list(lane.rests):
                del lane.rests[offset]
                lane.rests_changed.add(offset)
                self._queues.upkeep.forget((lane, offset))
            self._queues.outbox.dirty(lane)
        await self._queues.outbox.wait_durable()
        return count

    def _decide_end(self, queue: Queue, *, with_topic: bool = True) -> _End:
        """What is to be committed, and what is to be done when it is."""
        state = [forget_queue(queue.namespace, queue.name)]
        if queue.is_paused:
            state.append(put_paused(queue.namespace, queue.name, is_paused=False))
        for number in queue.logs:
            lane = next((lane for lane in queue.lanes if lane.log == number), None)
            if lane is not None:
                cursor, rests, attempts = lane.cursor, list(lane.rests), {*lane.attempts, *lane.attempts_changed}
            else:
                stored = self._stored.take(number)
                cursor, rests, attempts = stored.cursor, list(stored.rests), set(stored.attempts)
            state += cursor.decide_forget(SCOPE)
            state += [put_given(number, None), put_rewound(number, None)]
            state += [put_rest(number, offset, None) for offset in rests]
            state += [put_attempts(number, offset, None) for offset in attempts]
        router = self._routes.of(queue.namespace)
        routes = router.decide_forget_queue(queue.name)
        state += routes.state
        changes: list[LogChange] = []
        topic_changes: list[Mutation] = []
        if not queue.is_borrowed:
            changes = [DeleteLog(number) for number in queue.logs]
            if queue.topic_name is not None and with_topic:
                topic = self._topics.named(queue.namespace).get(queue.topic_name)
                if topic is not None:
                    topic_changes = self._topics.decide_delete(topic)

        def finish() -> None:
            router.replay(routes)
            self._topics.replay(topic_changes)

        return _End(changes, state + topic_changes, finish)

    # Topics

    def _topic_ends(self, topic: Topic) -> tuple[Sequence[Mutation], Callable[[], None]]:
        """A topic that is a queue goes: so does the queue."""
        queue = self._of_topic(topic)
        if queue is None:
            return (), _nothing
        end = self._decide_end(queue, with_topic=False)
        unseen = [DeleteLog(number) for number in queue.logs if number not in topic.logs]

        def finish() -> None:
            self._queues.remove(queue)
            end.finish()
            if unseen:
                self._engine.alter(unseen)

        return end.state, finish

    def _topic_grows(self, topic: Topic) -> None:
        """New partitions are read from their beginning."""
        queue = self._of_topic(topic)
        if queue is None or not queue.is_borrowed:
            return
        added = topic.logs[len(queue.logs) :]
        queue.logs = topic.logs
        if queue.lanes:
            queue.lanes += [self._queues.open_lane(queue, topic.logs.index(number), number) for number in added]
            queue.is_plain = False
        queue.wake()
        entry = QueueEntry(queue.namespace, queue.name, queue.properties, topic.logs, topic.name, is_borrowed=True)
        self._queues.outbox.mutate([put_queue(entry)])

    def _of_topic(self, topic: Topic) -> Queue | None:
        for queue in self._queues.all(topic.namespace):
            if queue.topic_name == topic.name:
                return queue
        return None


def _nothing() -> None:
    pass


def check_properties(properties: QueueProperties) -> None:
    """Raises InvalidQueue."""
    if not 0 <= properties.priority_max <= PRIORITY_MAX:
        raise InvalidQueue(f"priority_max {properties.priority_max} is not between 0 and {PRIORITY_MAX}")
    for name in ("message_ttl_ms", "length_max", "bytes_max", "retention_ms", "retention_bytes", "age_max_ms"):
        value = getattr(properties, name)
        if value is not None and value < 0:
            raise InvalidQueue(f"{name} {value} is negative")
    if properties.expires_ms is not None and properties.expires_ms <= 0:
        raise InvalidQueue(f"expires_ms {properties.expires_ms} is not positive")
    if properties.kind != "classic" and not properties.is_lasting:
        raise InvalidQueue(f"a {properties.kind} queue is durable and not exclusive")


def topic_configs(properties: QueueProperties, settings: QueueSettings) -> dict[str, str]:
    """The same, as a topic's configuration says it."""
    retention_ms = settings.retention_ms if properties.retention_ms is None else properties.retention_ms
    retention_bytes = settings.retention_bytes if properties.retention_bytes is None else properties.retention_bytes
    if properties.kind == "stream":
        retention_ms = -1 if properties.age_max_ms is None else properties.age_max_ms
        retention_bytes = -1 if properties.bytes_max is None else properties.bytes_max
    return {
        "max.message.bytes": str(BATCH_BYTES_MAX),
        "retention.bytes": str(retention_bytes),
        "retention.ms": str(retention_ms),
    }


def queue_log_config(properties: QueueProperties, configs: dict[str, str]) -> LogConfig:
    """What the logs of such a queue promise."""
    if not properties.is_lasting:
        # It ends with the broker: nothing to sync for, nothing to rewind to.
        return LogConfig(flush="os", batch_bytes_max=BATCH_BYTES_MAX, acknowledged="release")
    return log_config(configs, is_queue=properties.kind != "stream")
