"""Back to what was settled, as long as retention holds it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from mainstem.coordination.queues.entries import put_rewound
from mainstem.model.errors import OffsetOutOfRange
from mainstem.storage.contract import ConfigureLog, Edge, Engine, LogChange, Mutation, TimeAfter

if TYPE_CHECKING:
    from mainstem.broker.queues.declaration import QueueDeclaration
    from mainstem.broker.queues.publishing.outbox import Outbox
    from mainstem.broker.queues.queue import Queue, QueueLane


class Rewinding:
    """For all queues."""

    def __init__(self, outbox: Outbox, declaration: QueueDeclaration, engine: Engine) -> None:
        self._outbox = outbox
        self._declaration = declaration
        self._engine = engine

    async def seek(self, queue: Queue, *, time_ms: int | None = None, offset: int | None = None) -> None:
        """Go to a time, or an offset of each lane: all from there on waits again, all before is settled.

        What is given out at present stays so. Durable when answered. Below what retention holds, the first that it does.
        """
        places = [(lane, await self._place(lane, time_ms, offset)) for lane in queue.lanes]
        for lane, place in places:
            self._move(lane, place)
        await self._outbox.wait_durable()

    async def preview(self, queue: Queue, *, time_ms: int | None = None, offset: int | None = None) -> int:
        """How many messages would wait after that, beside those that consumers have. Nothing changes."""
        count = 0
        for lane in queue.lanes:
            place = await self._place(lane, time_ms, offset)
            count += lane.end - place
        return count

    async def redeliver(self, queue: Queue, selection: Mapping[int, Iterable[int]]) -> int:
        """Let these wait again, by lane and offset; answers how many of them were settled and are still there."""
        count = 0
        for number, wanted in selection.items():
            lane = queue.lanes[number]
            start = (await self._engine.offset_at(lane.log, Edge.START)).offset
            cursor = lane.cursor
            offsets = [o for o in sorted(set(wanted)) if start <= o < lane.end and cursor.is_settled(o)]
            if not offsets:
                continue
            before = cursor.floor
            lane.given = max(lane.given, lane.given_out)
            cursor.unsettle(offsets)
            lane.count += len(offsets)
            self._reread(lane, offsets[0])
            self._hold(lane, before)
            count += len(offsets)
        await self._outbox.wait_durable()
        return count

    async def _place(self, lane: QueueLane, time_ms: int | None, offset: int | None) -> int:
        start = (await self._engine.offset_at(lane.log, Edge.START)).offset
        if time_ms is not None:
            found = (await self._engine.offset_at(lane.log, TimeAfter(time_ms))).offset
            return lane.end if found < 0 else max(found, start)
        assert offset is not None, "a time or an offset"
        if offset > lane.end:
            raise OffsetOutOfRange(offset, start, lane.end)
        return max(offset, start)

    def _move(self, lane: QueueLane, place: int) -> None:
        before = lane.cursor.floor
        lane.given = max(lane.given, lane.given_out)
        lane.cursor.seek(place)
        lane.resting.clear()
        lane.drop_window(place)
        lane.count = lane.end - place + len(lane.cursor.held_below(place))
        self._hold(lane, before)

    def _reread(self, lane: QueueLane, offset: int) -> None:
        lane.drop_window(min(lane.tail, offset, lane.cursor.first_open()))
        lane.queue.wake()

    def _hold(self, lane: QueueLane, before: int) -> None:
        """What waits again must not be taken by retention, which was told that it is settled."""
        if lane.cursor.floor < before and not lane.queue.is_borrowed:
            lane.rewound = max(lane.rewound, before, lane.floor_moved)
            # By itself, and before what follows: with what is published it would be refused by a disk that is full.
            held = ConfigureLog(lane.log, self._declaration.log_config(lane.queue, is_rewound=True))
            self._engine.alter([held], [put_rewound(lane.log, lane.rewound)])
        self._outbox.dirty(lane)
        lane.queue.wake()

    def decide_caught_up(self, lane: QueueLane) -> tuple[list[Mutation], list[LogChange]]:
        """Everything is settled again that was before: retention goes on."""
        lane.rewound = 0
        return [put_rewound(lane.log, None)], [ConfigureLog(lane.log, self._declaration.log_config(lane.queue))]
