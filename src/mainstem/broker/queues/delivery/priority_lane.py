"""Urgent messages of quorum queues, as RabbitMQ 4 has them: where both wait, two of them go out for one of the others.

A message is urgent from priority 5 on. Most queues never see one, so the log for them is made when the first one comes, under
a number that was set aside when the queue was declared: at once for publishers, and a little later as one more
partition for those who see topics.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from mainstem.coordination.queues.entries import QueueEntry, put_queue
from mainstem.model.errors import MainstemError
from mainstem.storage.answer import Answer
from mainstem.storage.contract import CreateLog, Engine
from mainstem.wire.messages.message import Message

if TYPE_CHECKING:
    from mainstem.broker.catalog.topics import Topics
    from mainstem.broker.queues.declaration import QueueDeclaration
    from mainstem.broker.queues.lanes import OpenLanes
    from mainstem.broker.queues.queue import Queue, QueueLane

log = logging.getLogger(__name__)

URGENT_FROM = 5
"""The lowest priority that is urgent."""
URGENT_IN_A_ROW = 2


def take_by_turns(
    lanes: list[QueueLane], turn: int, count: int, size: int, take: Callable[[QueueLane, int, int], list[Message]]
) -> tuple[list[Message], int]:
    """Up to these limits, messages of the two lanes; and whose turn it is then.

    Turns are counted by messages, whichever lane they came from. An urgent message is never overtaken by one that came
    after it.
    """
    calm, urgent = lanes
    taken: list[Message] = []
    while len(taken) < count and size > 0:
        is_calm = calm.ready or calm.is_behind
        if (urgent.ready or urgent.is_behind) and not (is_calm and turn == URGENT_IN_A_ROW and _is_older(calm, urgent)):
            lane, most = urgent, max(URGENT_IN_A_ROW - turn, 1) if is_calm else count
        else:
            lane, most = calm, 1 if urgent.ready or urgent.is_behind else count
        some = take(lane, min(most, count - len(taken)), size)
        if not some and (lane.ready or lane.is_behind or not is_calm):
            break  # It is being read, or about to be called given out, or there is nothing.
        taken += some
        size -= sum([len(message.value) for message in some])
        turn = (turn + len(some)) % (URGENT_IN_A_ROW + 1)
    return taken, turn


def _is_older(calm: QueueLane, urgent: QueueLane) -> bool:
    """Whether the next calm message came before the next urgent one; as far as one can see."""
    return not (calm.ready and urgent.ready) or calm.ready[0].timestamp_ms <= urgent.ready[0].timestamp_ms


class PriorityLanes:
    """For all queues."""

    def __init__(self, lanes: OpenLanes, declaration: QueueDeclaration, engine: Engine, topics: Topics) -> None:
        self._lanes = lanes
        self._declaration = declaration
        self._engine = engine
        self._topics = topics
        self._tasks: set[asyncio.Task[None]] = set()

    def make(self, queue: Queue) -> QueueLane:
        """The lane that a queue does not have yet; what is published to it is behind its making in the log.

        Where it cannot be made now, the queue stays as it is, and the message is one of the others.
        """
        logs, number = queue.logs, queue.spare_log
        queue.logs, queue.spare_log = (*logs, number), 0
        lane = self._lanes.create(queue, len(queue.lanes), number)
        queue.lanes.append(lane)
        queue.is_plain = False
        entry = QueueEntry(
            queue.namespace, queue.name, queue.properties, queue.logs, queue.topic_name, is_borrowed=False
        )
        config = self._declaration.log_config(queue)

        def done(answer: Answer[None]) -> None:
            if answer.error is not None:
                log.warning("queue %s has no place for urgent messages: %s", queue.name, answer.error)
                self._lanes.drop(lane)
                queue.logs, queue.spare_log, queue.is_plain = logs, number, not queue.is_gone
            elif not queue.is_gone:
                self._lanes.follow(lane)
                self._spawn(queue)

        self._engine.alter([CreateLog(number, config)], [put_queue(entry)]).on_done(done)
        return queue.lanes[-1]

    async def show(self, queues: Iterable[Queue]) -> None:
        """Let those who see topics see the lanes of these queues, where a crash came in between."""
        for queue in queues:
            if queue.topic_name is not None and not queue.is_borrowed and queue.properties.kind == "quorum":
                for number in queue.logs[1:]:
                    await self._topics.append_log(queue.namespace, queue.topic_name, number)

    def _spawn(self, queue: Queue) -> None:
        async def show() -> None:
            try:
                await self.show([queue])
            except MainstemError as error:
                log.warning("queue %s does not show its urgent messages: %s", queue.name, error)

        task = asyncio.get_running_loop().create_task(show())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
