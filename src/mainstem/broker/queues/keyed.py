"""Order by key: messages of one key are worked on by one consumer at a time, in order; other keys go on beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mainstem.broker.queues.consumers import Consumer
from mainstem.coordination.queue.message import Message

if TYPE_CHECKING:
    from mainstem.broker.queues.queue import Queue, QueueLane

SCANNED_MAX = 1_024
"""Messages that are looked at behind ones that have to wait."""


class KeyedDealing:
    """Who works on which key."""

    def __init__(self) -> None:
        self._holders: dict[Message, Consumer] = {}
        self._turn = 0

    def deal(self, queue: Queue, able: Sequence[Consumer]) -> bool:
        """Give out what can be; answers whether anything was."""
        holders = self._holders = {
            message: self._holders[message]
            for lane in queue.lanes
            for message in lane.unsettled.values()
            if message in self._holders
        }
        locked: dict[bytes | None, Consumer] = {
            message.key: consumer for message, consumer in holders.items() if message.key is not None
        }
        rooms = {consumer: consumer.room for consumer in able}
        shares: dict[Consumer, list[Message]] = {}
        for lane in queue.lanes:
            self._deal_lane(queue, lane, list(able), rooms, locked, shares)
        queue.delivered += sum(map(len, shares.values()))
        for consumer, share in shares.items():
            consumer.deliver(queue, share)
        return bool(shares)

    def _deal_lane(
        self,
        queue: Queue,
        lane: QueueLane,
        able: list[Consumer],
        rooms: dict[Consumer, int],
        locked: dict[bytes | None, Consumer],
        shares: dict[Consumer, list[Message]],
    ) -> None:
        waiting: list[Message] = []
        blocked: set[bytes] = set()
        scanned = 0
        while lane.ready and scanned < SCANNED_MAX and any(rooms.values()):
            message = queue.take_first(lane)
            scanned += 1
            if message is None:
                break
            key = message.key
            holder = locked.get(key)
            if holder is None and key not in blocked:
                holder = self._next(able, rooms)
            if holder is None or not rooms.get(holder) or key in blocked:
                if key is not None:
                    blocked.add(key)
                waiting.append(message)
                continue
            if key is not None:
                locked[key] = holder
            rooms[holder] -= 1
            self._holders[message] = holder
            shares.setdefault(holder, []).append(message)
        for message in waiting:
            del lane.unsettled[message.offset]
        lane.take_back(waiting)

    def _next(self, able: list[Consumer], rooms: dict[Consumer, int]) -> Consumer | None:
        for _ in able:
            self._turn += 1
            consumer = able[self._turn % len(able)]
            if rooms[consumer]:
                return consumer
        return None
