"""Deleting a queue: one commit removes the queue, its logs, its topic, its cursors and its bindings."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mainstem.coordination.catalog.catalog import Topic
from mainstem.coordination.errors import QueueInUse, QueueNotEmpty, UnknownQueue
from mainstem.coordination.queues.entries import (
    SCOPE,
    forget_queue,
    put_given,
    put_paused,
    put_rewound,
)
from mainstem.storage.answer import Answer
from mainstem.storage.contract import DeleteLog, Engine, LogChange, Mutation

if TYPE_CHECKING:
    from mainstem.broker.catalog.topics import Topics
    from mainstem.broker.queues.queue import Queue
    from mainstem.broker.queues.queues import Queues
    from mainstem.broker.queues.stored import StoredQueues
    from mainstem.broker.routes import Routes

log = logging.getLogger(__name__)

DELETED_AT_ONCE = 500
"""Queues that are deleted in one commit."""


class _Removal(NamedTuple):
    """What deletes one queue."""

    changes: list[LogChange]
    state: list[Mutation]
    finish: Callable[[], None]


class QueueDeletion:
    """For all queues."""

    def __init__(self, queues: Queues, engine: Engine, topics: Topics, routes: Routes, stored: StoredQueues) -> None:
        self._queues = queues
        self._engine = engine
        self._topics = topics
        self._routes = routes
        self._stored = stored
        topics.on_delete = self._topic_deleted

    async def delete(self, queue: Queue, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Remove a queue; answers how many messages were waiting. Raises QueueInUse, QueueNotEmpty, UnknownQueue."""
        await self._queues.know((queue,))
        if queue.is_gone:
            raise UnknownQueue(queue.name)
        if if_unused and queue.consumers.all:
            raise QueueInUse(queue.name)
        count = queue.ready_count
        if if_empty and count:
            raise QueueNotEmpty(queue.name)
        await self._remove(queue)
        return count

    def _remove(self, queue: Queue) -> Answer[None]:
        removal = self._decide_removal(queue)
        self._queues.outbox.flush()  # What was published before is behind us in the log.
        answer = self._engine.alter(removal.changes, removal.state)
        self._queues.remove(queue)
        removal.finish()
        return answer

    def delete_unused(self, queue: Queue) -> None:
        """Remove a queue that has had its time."""

        def done(answer: Answer[None]) -> None:
            if answer.error is not None:
                log.warning("queue %s could not be deleted: %s", queue.name, answer.error)

        if not queue.is_gone and not queue.consumers.all:
            self._remove(queue).on_done(done)

    def last_consumer_left(self, queue: Queue) -> None:
        """Delete the queue now if it is declared so, or once it was idle for too long."""
        if queue.properties.auto_delete and queue.had_consumers and not queue.is_gone:
            self.delete_unused(queue)
        self.watch_idle(queue)

    def watch_idle(self, queue: Queue) -> None:
        """Delete a queue that is idle for too long, if its rules say so."""
        idle_ms = queue.rules.expires_ms
        if idle_ms is None or queue.is_gone:
            return
        due_ms = queue.used_ms + idle_ms
        if queue.consumers.all:
            return
        if due_ms <= self._queues.now_ms():
            self.delete_unused(queue)
        else:
            self._queues.timers.at(due_ms, (queue, "idle"), functools.partial(self.watch_idle, queue))

    async def delete_all(self, queues: Sequence[Queue]) -> None:
        """Remove many, which nobody uses."""
        for first in range(0, len(queues), DELETED_AT_ONCE):
            some = queues[first : first + DELETED_AT_ONCE]
            removals = [self._decide_removal(queue) for queue in some]
            for queue in some:
                self._queues.remove(queue)
            changes = [change for removal in removals for change in removal.changes]
            await self._engine.alter(changes, [mutation for removal in removals for mutation in removal.state])
            for removal in removals:
                removal.finish()

    async def purge(self, queue: Queue) -> int:
        """Let all messages go that wait; answers how many. What was given out stays so."""
        await self._queues.open(queue)
        count = queue.ready_count
        for lane in queue.lanes:
            kept = lane.cursor.settle_free(lane.end)
            lane.resting.clear()
            lane.drop_window(lane.end)
            lane.count = len(kept)
            self._queues.outbox.dirty(lane)
        await self._queues.outbox.wait_durable()
        return count

    def _decide_removal(self, queue: Queue, *, with_topic: bool = True) -> _Removal:
        """What is to be committed, and what is to be done when it is."""
        state = [forget_queue(queue.namespace, queue.name)]
        if queue.is_paused:
            state.append(put_paused(queue.namespace, queue.name, is_paused=False))
        for number in queue.logs:
            lane = next((lane for lane in queue.lanes if lane.log == number), None)
            cursor = self._stored.take(number).cursor if lane is None else lane.cursor
            state += cursor.decide_forget(SCOPE)
            state += [put_given(SCOPE, number, None), put_rewound(number, None)]
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
        remove_topic = self._topics.prepare(topic_changes)

        def finish() -> None:
            router.replay(routes)
            remove_topic()

        return _Removal(changes, state + topic_changes, finish)

    def _topic_deleted(self, topic: Topic) -> tuple[Sequence[Mutation], Callable[[], None]]:
        """A topic that is a queue goes: so does the queue."""
        queue = self._queues.of_topic(topic)
        if queue is None:
            return (), _nothing
        removal = self._decide_removal(queue, with_topic=False)
        unseen = [DeleteLog(number) for number in queue.logs if number not in topic.logs]

        def finish() -> None:
            self._queues.remove(queue)
            removal.finish()
            if unseen:
                self._engine.alter(unseen)

        return removal.state, finish


def _nothing() -> None:
    pass
