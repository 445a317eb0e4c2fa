"""Consumers that want some of the messages: each is given to the next in turn that wants it; the others stay where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from mainstem.broker.queues.consumers import Consumer
from mainstem.coordination.queue.message import Message

if TYPE_CHECKING:
    from mainstem.broker.queues.queue import Queue, QueueLane

Wants: TypeAlias = Callable[[Message], bool]
"""Whether a consumer wants a message: always the same answer for the same one."""

SCANNED_MAX = 1_024
"""Messages of a lane that are looked at behind ones that nobody wants."""


class SelectiveDealing:
    """Of one queue: who wants what."""

    def __init__(self) -> None:
        self.wants: dict[Consumer, Wants] = {}
        self._turn = 0

    def deal(self, queue: Queue, able: Sequence[Consumer]) -> bool:
        """Give out what can be; answers whether anything was."""
        rooms = {consumer: consumer.room for consumer in able}
        shares: dict[Consumer, list[Message]] = {}
        for lane in reversed(queue.lanes):  # the most urgent first, where lanes are priorities
            if any(rooms.values()):
                self._deal_lane(queue, lane, able, rooms, shares)
        queue.delivered += sum(map(len, shares.values()))
        for consumer, share in shares.items():
            consumer.deliver(queue, share)
        return bool(shares)

    def _deal_lane(
        self,
        queue: Queue,
        lane: QueueLane,
        able: Sequence[Consumer],
        rooms: dict[Consumer, int],
        shares: dict[Consumer, list[Message]],
    ) -> None:
        passed: list[Message] = []
        while lane.ready and len(passed) < SCANNED_MAX and any(rooms.values()):
            message = queue.take_first(lane)
            if message is None:
                break
            consumer = self._next(able, rooms, message)
            if consumer is None:
                passed.append(message)
            else:
                rooms[consumer] -= 1
                shares.setdefault(consumer, []).append(message)
        for message in passed:
            del lane.unsettled[message.offset]
        lane.take_back(passed)

    def _next(self, able: Sequence[Consumer], rooms: dict[Consumer, int], message: Message) -> Consumer | None:
        for ahead in range(1, len(able) + 1):
            consumer = able[(self._turn + ahead) % len(able)]
            wants = self.wants.get(consumer)
            if rooms[consumer] and (wants is None or wants(message)):
                self._turn += ahead
                return consumer
        return None
