"""The lanes of all queues that are open: made from what is stored, and told of what others write to their logs.

An engine may say only later where a log begins and ends. Until then a lane is taken to be empty: it takes messages, and gives out
none of those that were there before. Callers that show counts, or act on them, wait for `know`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mainstem.broker.queues.publishing.committing import WINDOW_BYTES_MAX
from mainstem.coordination.queues.entries import put_given
from mainstem.coordination.queues.lane import Lane
from mainstem.coordination.subscriptions.subscribed_log import SubscribedLog
from mainstem.model.errors import UnknownLog
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Edge, Engine, Found, LogEnd

if TYPE_CHECKING:
    from mainstem.broker.queues.delivery.dispatcher import Dispatcher
    from mainstem.broker.queues.publishing.outbox import Outbox
    from mainstem.broker.queues.queue import Queue, QueueLane
    from mainstem.broker.queues.reading import WindowReader
    from mainstem.broker.queues.settling.settling import Settling

RESERVED_OFFSETS = 16_384
"""Offsets that are stored as given out ahead of time, in one commit."""
UNRESERVED = 1 << 62


class _Opening:
    """What the engine has not said yet of a lane."""

    __slots__ = ("answer", "end", "start", "stored_given")

    def __init__(self, end: int | None, start: int | None, stored_given: int) -> None:
        self.end = end
        self.start = start
        self.stored_given = stored_given
        self.answer: Answer[None] = Answer()


class OpenLanes:
    """By log. The lanes share the memory for ready messages."""

    def __init__(
        self,
        engine: Engine,
        dispatcher: Dispatcher,
        outbox: Outbox,
        reader: WindowReader,
        settling: Settling,
        window_bytes_max: int,
    ) -> None:
        self._engine = engine
        self._dispatcher = dispatcher
        self._outbox = outbox
        self._reader = reader
        self._settling = settling
        self._window_bytes_max = window_bytes_max
        self._lanes: dict[int, QueueLane] = {}
        """Of queues: a log has one."""
        self._beside: dict[int, list[QueueLane]] = {}
        """Of subscriptions of topics: a log may have many."""
        self._count = 0
        self._opening: dict[QueueLane, _Opening] = {}
        self._counted: dict[Queue, int] = {}
        """Of queues that are not open, and whose engine does not answer at once: their messages when they were last counted."""
        self._watch = engine.watch(self._moved)

    def all(self) -> list[QueueLane]:
        """Every open lane."""
        return [*self._lanes.values(), *(lane for lanes in self._beside.values() for lane in lanes)]

    def of_log(self, number: int) -> QueueLane | None:
        """The lane of a queue that reads this log, if it is open."""
        return self._lanes.get(number)

    # Coming and going

    def open_all(self, queue: Queue) -> list[QueueLane]:
        """The lanes of a queue that is used for the first time since the start."""
        self._counted.pop(queue, None)
        return [self.open(queue, number, log_number) for number, log_number in enumerate(queue.logs)]

    def open(self, queue: Queue, number: int, log_number: int) -> QueueLane:
        """One lane, as it was stored."""
        stored = queue.stored.take(log_number)
        found = self._engine.offset_at(log_number, Edge.START)
        start = _start_of(found) if found.done else None
        if start is not None:
            self._pass_over(queue, stored.cursor, start)
        end = self._watch.add(log_number)
        lane = self._add(queue, number, stored.cursor, stored.cursor.floor if end is None else end.stable)
        lane.given, lane.rewound = stored.given if end is None else min(stored.given, lane.end), stored.rewound
        if end is None or start is None:
            self._opening[lane] = _Opening(None if end is None else end.stable, start, stored.given)
            if start is None:
                found.on_done(functools.partial(self._found_start, lane))
        if queue.is_stored:
            lane.reserved = lane.reserve_at = stored.given
        self._settling.watch(lane)
        return lane

    def _pass_over(self, queue: Queue, cursor: SubscribedLog, start: int) -> None:
        """Move the cursor past what retention took meanwhile."""
        if start > cursor.floor:
            queue.lost += start - cursor.floor - cursor.settled.count(cursor.floor, start)
            cursor.raise_floor(start)
            for offset in [offset for offset in cursor.rests if offset < start]:
                cursor.end_rest(offset)

    def _found_start(self, lane: QueueLane, found: Answer[Found]) -> None:
        opening = self._opening.get(lane)
        if opening is not None:
            opening.start = _start_of(found)
            self._finish_opening(lane, opening)

    def _finish_opening(self, lane: QueueLane, opening: _Opening) -> None:
        """Once both edges of a log are known, count what is between them."""
        if opening.start is None or opening.end is None:
            return
        del self._opening[lane]
        if not lane.is_gone:
            lane.opened_at = max(opening.end, lane.cursor.floor)
            lane.given = max(min(opening.stored_given, opening.end), lane.given_out)
            lane.extend(opening.end)
            if lane.tail < opening.start:
                self._reader.lose(lane, opening.start)
            if lane.queue.rules.overflow != "back-pressure":
                self._outbox.not_full(lane.queue)
            lane.queue.wake()
        opening.answer.resolve(None)

    def is_opening(self, queue: Queue) -> bool:
        """Whether the engine has not said yet where the logs of a queue begin or end."""
        return bool(self._opening) and any(lane in self._opening for lane in queue.lanes)

    def when_known(self, queue: Queue, callback: Callable[[], None]) -> None:
        """Call back when the engine has said where the logs of an open queue begin and end: now, if it has."""
        for lane in queue.lanes:
            if (opening := self._opening.get(lane)) is not None:
                opening.answer.on_done(lambda _: self.when_known(queue, callback))
                return
        callback()

    async def know(self, queue: Queue) -> None:
        """Until the counts of a queue are right. A queue that nobody uses is not opened for it."""
        if not queue.lanes and not queue.is_gone and self.count_unopened(queue) is None:
            self._counted[queue] = await self._count_late(queue)
            if queue.lanes or queue.is_gone:
                del self._counted[queue]
        for lane in queue.lanes:
            if (opening := self._opening.get(lane)) is not None:
                await opening.answer

    def create(self, queue: Queue, number: int, log_number: int) -> QueueLane:
        """A lane whose log is being made; `follow` it once the log exists."""
        lane = self._add(queue, number, SubscribedLog(log_number, 0), 0)
        lane.reserved = lane.reserve_at = 0
        return lane

    def follow(self, lane: QueueLane) -> None:
        """Watch the log of a lane that was created just now."""
        end = self._watch.add(lane.log)
        if end is not None:
            lane.extend(end.stable)

    def drop(self, lane: QueueLane) -> None:
        """The log of a lane that was created could not be made."""
        lane.is_gone = True
        lane.queue.lanes.remove(lane)
        del self._lanes[lane.log]
        self._count -= 1

    def close(self, lane: QueueLane) -> None:
        """The queue of this lane is gone."""
        lane.is_gone = True
        self._count -= 1
        if lane.queue.is_beside:
            beside = self._beside[lane.log]
            beside.remove(lane)
            if not beside:
                del self._beside[lane.log]
        else:
            self._lanes.pop(lane.log, None)
        if lane.log not in self._lanes and lane.log not in self._beside:
            self._watch.remove(lane.log)
        if (opening := self._opening.pop(lane, None)) is not None:
            opening.answer.resolve(None)

    def _add(self, queue: Queue, number: int, cursor: SubscribedLog, end: int) -> QueueLane:
        lane: QueueLane = Lane(queue, number, cursor, end)
        if queue.is_beside:
            self._beside.setdefault(lane.log, []).append(lane)
        else:
            self._lanes[lane.log] = lane
        self._count += 1
        share = min(WINDOW_BYTES_MAX, self._window_bytes_max // self._count)
        self._outbox.window_bytes_max = self._reader.window_bytes_max = share
        return lane

    def _moved(self, ends: Mapping[int, LogEnd]) -> None:
        """Logs have grown. The lane learns at the end of the turn: the answers to our own commits come before."""
        for number, end in ends.items():
            lane = self._lanes.get(number)
            if lane is not None:
                self._lane_moved(lane, end)
            for beside in self._beside.get(number, ()):
                self._lane_moved(beside, end)

    def _lane_moved(self, lane: QueueLane, end: LogEnd) -> None:
        if end.end < 0:
            lane.is_gone = True
        opening = self._opening.get(lane)
        if opening is not None and opening.end is None:
            opening.end = end.stable
            self._finish_opening(lane, opening)
        self._dispatcher.lane_grew(lane, end.stable)

    # Counts

    def count_unopened(self, queue: Queue) -> int | None:
        """Messages of a queue whose lanes are not open; None where the engine must be asked first, by `know`."""
        count = 0
        for number in queue.logs:
            start, end = (self._engine.offset_at(number, edge) for edge in (Edge.START, Edge.END))
            if not (start.done and end.done):
                return self._counted.get(queue)
            if start.error is not None or end.error is not None:
                return None
            count += max(end.result().offset - queue.stored.settled(number, start.result().offset), 0)
        return count

    async def _count_late(self, queue: Queue) -> int:
        count = 0
        for number in queue.logs:
            try:
                start = await self._engine.offset_at(number, Edge.START)
                end = await self._engine.offset_at(number, Edge.END)
            except UnknownLog:
                continue  # deleted meanwhile
            count += max(end.offset - queue.stored.settled(number, start.offset), 0)
        return count

    # What may be given out

    def reserve(self, lane: QueueLane) -> None:
        """Store that more messages may be given out. The lane gives them out once that is durable.

        After a crash the broker cannot know which of them were given out. It marks all of them as redelivered: some wrongly,
        never the other way round.
        """
        if lane.is_reserving:
            return
        lane.is_reserving = True
        until = max(lane.ready[-1].offset + 1 if lane.ready else 0, lane.tail) + RESERVED_OFFSETS

        def done(answer: Answer[None]) -> None:
            lane.is_reserving = False
            if answer.error is None and not lane.is_gone:
                lane.reserved, lane.reserve_at = until, until - RESERVED_OFFSETS // 2
                lane.queue.wake()

        # A commit of its own: a full disk refuses commits that also publish.
        self._engine.alter((), [put_given(lane.queue.stored.scope, lane.log, until)]).on_done(done)

    def store_given(self) -> None:
        """Before the end: store exactly what was given out, instead of what was reserved."""
        for lane in self.all():
            given = max(lane.given, lane.given_out)
            if not lane.is_gone and given < lane.reserved < UNRESERVED:
                self._outbox.mutate([put_given(lane.queue.stored.scope, lane.log, given)])


def _start_of(found: Answer[Found]) -> int:
    """Where a log begins; of one that is gone, or cannot be read, nothing is known to be lost."""
    return found.result().offset if found.error is None else 0
