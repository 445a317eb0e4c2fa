"""Messages of a queue, held by an acquisition: consumers of the queue compete for them.

An acquisition knows its messages by their offsets, not as objects: so it costs little, however large they are. What comes
back is read from the log again; only what dies is read here, for its dead letter.
"""

from __future__ import annotations

import random
from asyncio import Future
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from mainstem.broker.acquisitions.holds import AcquisitionRequest, Tried, add
from mainstem.broker.acquisitions.queue_part import QueuePart, read_again
from mainstem.broker.dead_letters.browsing import take
from mainstem.broker.queues import Message, Queue, Queues
from mainstem.broker.queues.reading import messages_or_work
from mainstem.coordination.acquisitions.acquisition import Acquisition, RecordVerdict, Source, Stretch, Stretches
from mainstem.coordination.acquisitions.acquisitions import STRETCHES_MAX
from mainstem.coordination.dead_letters.deaths import Reason
from mainstem.coordination.errors import QueueBusy, QueueLocked, UnknownQueue, UnsuitableSource
from mainstem.coordination.subscriptions.cursor import NEVER, Counts
from mainstem.storage.contract import Engine, ReadHint

if TYPE_CHECKING:
    from mainstem.broker.queues.queue import QueueLane

TAKE_BYTES_MAX = 64 << 20
"""Messages of one acquisition, about; one at least."""
READ_BYTES = 256 << 10


class QueueHolds:
    """Of all queues."""

    def __init__(self, engine: Engine, queues: Queues) -> None:
        self._engine = engine
        self._queues = queues

    def find(self, source: Source) -> Queue:
        """The queue, with its lanes. Raises UnknownQueue."""
        assert source.namespace is not None
        queue = self._queues.find(source.namespace, source.name)
        if queue is None or queue.is_gone:
            raise UnknownQueue(f"no queue {source.name} in {source.namespace}")
        queue.open()
        return queue

    def _suitable(self, source: Source) -> Queue:
        queue = self.find(source)
        if queue.properties.kind == "stream":
            raise UnsuitableSource(f"{queue.name} is a stream, of which nothing is settled: read its topic instead")
        if queue.ordering not in ("shared", "failover"):
            raise UnsuitableSource(f"queue {queue.name} serves its consumers by ordering {queue.ordering}")
        if not queue.properties.is_lasting:
            raise UnsuitableSource(f"queue {queue.name} ends with the broker or its owner, an acquisition does not")
        if queue.owner is not None:
            raise QueueLocked(queue.name)
        if any(consumer.is_exclusive for consumer in queue.consumers.all):
            raise QueueBusy(f"a consumer has queue {queue.name} to itself")
        return queue

    async def take(self, source: Source, wish: AcquisitionRequest) -> Stretches:
        """The first messages that wait."""
        queue = self._suitable(source)
        messages: list[Message] = []
        bytes_left = TAKE_BYTES_MAX
        while len(messages) < wish.records_max and bytes_left > 0:
            more = queue.take_now(wish.records_max - len(messages), bytes_left)
            if not more:
                first = await take(queue)
                if first is None:
                    break
                more = [first]
            messages += self._wanted(more, wish)
            bytes_left -= sum(len(message.value) for message in more)
            if wish.until is not None and more[-1].offset >= wish.until.get(more[-1].lane.log, 0):
                break
        return self._hold(messages)

    def _wanted(self, messages: list[Message], wish: AcquisitionRequest) -> list[Message]:
        if wish.until is None:
            return messages
        later = [message for message in messages if message.offset >= wish.until.get(message.lane.log, 0)]
        _put_back(later)
        return [message for message in messages if message.offset < wish.until.get(message.lane.log, 0)]

    def _hold(self, messages: list[Message]) -> Stretches:
        """From objects to offsets."""
        ordered = sorted(messages, key=lambda one: (one.lane.number, one.offset))
        taken: dict[int, list[Stretch]] = {}
        for at, message in enumerate(ordered):
            lane: QueueLane = message.lane
            if lane.unsettled.get(message.offset) is not message:
                continue  # the queue was rewound or is gone
            if sum(map(len, taken.values())) >= STRETCHES_MAX:
                _put_back(ordered[at:])
                break
            del lane.unsettled[message.offset]
            add(taken, lane.log, Stretch(message.offset, message.offset, message.deliveries + 1))
        for lane in dict.fromkeys(message.lane for message in ordered):
            for first, last, _ in taken.get(lane.log, ()):
                lane.cursor.acquire(first, last)
                lane.queue.delivered += last - first + 1
        return taken

    async def ends(self, source: Source, topics: Sequence[str]) -> Mapping[int, int]:
        """Where each lane ends."""
        queue = self._suitable(source)
        await self._queues.know((queue,))
        return {lane.log: lane.end for lane in queue.lanes}

    def free(self, source: Source, stretches: Stretches) -> None:
        """To be read again from the log, in their places."""
        for log, held in stretches.items():
            lane = self.lane(log)
            if lane is not None and held:
                for first, last, _ in held:
                    lane.cursor.unacquire(first, last)
                read_again(lane, held[0].first)

    def lane(self, log: int) -> QueueLane | None:
        """The lane of a log, unless its queue is gone."""
        queue = self._queues.of_log(log)
        return None if queue is None else next(lane for lane in queue.lanes if lane.log == log)

    def hold_again(self, one: Acquisition) -> None:
        """Before anything is read of the queue."""
        queue = None if one.source.namespace is None else self._queues.find(one.source.namespace, one.source.name)
        if queue is not None:
            queue.open()
            for log, (first, last, _) in one.held():
                lane = self.lane(log)
                if lane is not None and lane.queue is queue:
                    lane.cursor.acquire(first, last)

    async def judge(
        self, one: Acquisition, judged: Iterable[tuple[int, Stretch, RecordVerdict]], now_ms: int
    ) -> QueuePart:
        """By the rules of the queue: its limit of deliveries, its retry policy, where its dead letters go."""
        part = QueuePart(self._queues, now_ms)
        dying: dict[int, dict[int, tuple[Reason, str]]] = {}
        for log, stretch, verdict in judged:
            lane = self.lane(log)
            if lane is None:
                continue  # the queue is gone
            of_lane = part.of(lane)
            if verdict.kind == "accept":
                of_lane.settled.append(stretch)
                continue
            if verdict.kind == "reject":
                for offset in range(stretch.first, stretch.last + 1):
                    dying.setdefault(log, {})[offset] = ("rejected", verdict.reason)
                continue
            for offset in range(stretch.first, stretch.last + 1):
                single = Stretch(offset, offset, stretch.deliveries)
                delay_ms = _delay(lane, offset, verdict)
                if delay_ms is None:
                    dying.setdefault(log, {})[offset] = ("delivery_limit", verdict.reason)
                elif delay_ms:
                    of_lane.rests[offset] = now_ms + delay_ms
                    of_lane.tried.append(Tried(single, verdict.failed))
                else:
                    of_lane.returned.append(single)
                    of_lane.tried.append(Tried(single, verdict.failed))
        for log, deaths in dying.items():
            lane = self.lane(log)
            if lane is not None:
                await self._read_dying(one, part, lane, deaths)
        return part

    async def _read_dying(
        self, one: Acquisition, part: QueuePart, lane: QueueLane, dying: Mapping[int, tuple[Reason, str]]
    ) -> None:
        of_lane = part.of(lane)
        deliveries = {o: held.deliveries for held in one.stretches[lane.log] for o in range(held.first, held.last + 1)}
        position, wanted = -1, sorted(dying)
        for offset in wanted:
            if offset < position:
                continue
            result = await self._engine.read(lane.log, offset, READ_BYTES, ReadHint.CATCH_UP)
            decoded = messages_or_work(result, lane, self._queues.heavy_work)
            found, after = await decoded if isinstance(decoded, Future) else decoded
            for message in found:
                if message.offset in dying and message.offset >= position:
                    message.deliveries = deliveries[message.offset] - 1
                    message.failures = lane.cursor.counts.get(message.offset, NEVER).failures
                    of_lane.dying.append((message, *dying[message.offset]))
            # Less than was read may have been decoded.
            position = max(position, after if after > offset else result.next_offset)
        present = {message.offset for message, _, _ in of_lane.dying}
        of_lane.settled += [Stretch(offset, offset, 1) for offset in wanted if offset not in present]


def _put_back(messages: Iterable[Message]) -> None:
    """As if they had not been taken."""
    by_lane: dict[QueueLane, list[Message]] = {}
    for message in messages:
        if message.lane.unsettled.pop(message.offset, None) is message:
            by_lane.setdefault(message.lane, []).append(message)
    for lane, back in by_lane.items():
        lane.take_back(back)
        lane.queue.wake()


def _delay(lane: QueueLane, offset: int, verdict: RecordVerdict) -> int | None:
    """How long a message rests before it is given out again; None: it was once too often."""
    deliveries, failures = lane.cursor.counts.get(offset, NEVER)
    counts = Counts(deliveries + 1, failures + verdict.failed)
    return lane.queue.policy.delay_ms(counts, failed=verdict.failed, delay_ms=verdict.delay_ms, random=random.random)
