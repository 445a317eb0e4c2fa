"""The lanes of all queues that are open: made from what is stored, and told of what others write to their logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from mainstem.broker.queues.publishing.committing import WINDOW_BYTES_MAX
from mainstem.coordination.queues.entries import put_given
from mainstem.coordination.queues.lane import Lane
from mainstem.coordination.subscriptions.cursor import Cursor
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Edge, Engine, LogEnd

if TYPE_CHECKING:
    from mainstem.broker.queues.delivery.dispatcher import Dispatcher
    from mainstem.broker.queues.publishing.outbox import Outbox
    from mainstem.broker.queues.queue import Queue, QueueLane
    from mainstem.broker.queues.reading import WindowReader
    from mainstem.broker.queues.stored import StoredQueues

RESERVED_OFFSETS = 16_384
"""Offsets that are stored as given out ahead of time, in one commit."""
UNRESERVED = 1 << 62


class OpenLanes:
    """By log. The lanes share the memory for ready messages."""

    def __init__(
        self,
        engine: Engine,
        stored: StoredQueues,
        dispatcher: Dispatcher,
        outbox: Outbox,
        reader: WindowReader,
        window_bytes_max: int,
    ) -> None:
        self._engine = engine
        self._stored = stored
        self._dispatcher = dispatcher
        self._outbox = outbox
        self._reader = reader
        self._window_bytes_max = window_bytes_max
        self._lanes: dict[int, QueueLane] = {}
        self._watch = engine.watch(self._moved)

    def all(self) -> Iterable[QueueLane]:
        """Every open lane."""
        return self._lanes.values()

    def of_log(self, number: int) -> QueueLane | None:
        """The lane that reads this log, if it is open."""
        return self._lanes.get(number)

    # Coming and going

    def open_all(self, queue: Queue) -> list[QueueLane]:
        """The lanes of a queue that is used for the first time since the start."""
        return [self.open(queue, number, log_number) for number, log_number in enumerate(queue.logs)]

    def open(self, queue: Queue, number: int, log_number: int) -> QueueLane:
        """One lane, as it was stored."""
        stored = self._stored.take(log_number)
        self._pass_over(queue, stored.cursor)
        lane = self._add(queue, number, stored.cursor, self._watch.add(log_number).stable)
        lane.given, lane.rewound = min(stored.given, lane.end), stored.rewound
        if queue.properties.is_lasting or queue.is_borrowed:
            lane.reserved = lane.reserve_at = stored.given
        floor = lane.cursor.floor
        lane.rests = {offset: (due_ms, None) for offset, due_ms in stored.rests.items() if offset >= floor}
        lane.rests_changed = {offset for offset in stored.rests if offset < floor}
        lane.attempts = stored.attempts
        return lane

    def _pass_over(self, queue: Queue, cursor: Cursor) -> None:
        """Move the cursor past what retention took meanwhile."""
        start = self._engine.offset_at(cursor.log, Edge.START)
        if start.done and start.error is None and start.result().offset > cursor.floor:
            first, after = cursor.floor, start.result().offset
            queue.lost += after - first - cursor.settled.count(first, after)
            cursor.raise_floor(after)

    def create(self, queue: Queue, number: int, log_number: int) -> QueueLane:
        """A lane whose log is being made; `follow` it once the log exists."""
        lane = self._add(queue, number, Cursor(log_number, 0), 0)
        lane.reserved = lane.reserve_at = 0
        return lane

    def follow(self, lane: QueueLane) -> None:
        """Watch the log of a lane that was created just now."""
        lane.extend(self._watch.add(lane.log).stable)

    def drop(self, lane: QueueLane) -> None:
        """The log of a lane that was created could not be made."""
        lane.is_gone = True
        lane.queue.lanes.remove(lane)
        del self._lanes[lane.log]

    def close(self, lane: QueueLane) -> None:
        """The queue of this lane is gone."""
        lane.is_gone = True
        self._lanes.pop(lane.log, None)
        self._watch.remove(lane.log)

    def _add(self, queue: Queue, number: int, cursor: Cursor, end: int) -> QueueLane:
        lane: QueueLane = Lane(queue, number, cursor, end)
        self._lanes[lane.log] = lane
        share = min(WINDOW_BYTES_MAX, self._window_bytes_max // len(self._lanes))
        self._outbox.window_bytes_max = self._reader.window_bytes_max = share
        return lane

    def _moved(self, ends: Mapping[int, LogEnd]) -> None:
        """Logs have grown. The lane learns at the end of the turn: the answers to our own commits come before."""
        for number, end in ends.items():
            lane = self._lanes.get(number)
            if lane is None:
                continue
            if end.end < 0:
                lane.is_gone = True
            self._dispatcher.lane_grew(lane, end.stable)

    # Counts

    def count_unopened(self, queue: Queue) -> int | None:
        """Messages of a queue whose lanes are not open; None if the engine does not answer at once."""
        count = 0
        for number in queue.logs:
            start, end = (self._engine.offset_at(number, edge) for edge in (Edge.START, Edge.END))
            if not (start.done and end.done) or start.error is not None or end.error is not None:
                return None
            count += max(end.result().offset - self._stored.settled(number, start.result().offset), 0)
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
        until = max(lane.ready[-1].offset + 1, lane.tail) + RESERVED_OFFSETS

        def done(answer: Answer[None]) -> None:
            lane.is_reserving = False
            if answer.error is None and not lane.is_gone:
                lane.reserved, lane.reserve_at = until, until - RESERVED_OFFSETS // 2
                lane.queue.wake()

        # A commit of its own: a full disk refuses commits that also publish.
        self._engine.alter((), [put_given(lane.log, until)]).on_done(done)

    def store_given(self) -> None:
        """Before the end: store exactly what was given out, instead of what was reserved."""
        for lane in self._lanes.values():
            given = max(lane.given, lane.given_out)
            if not lane.is_gone and given < lane.reserved < UNRESERVED:
                self._outbox.mutate([put_given(lane.log, given)])
