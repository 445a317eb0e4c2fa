"""Messages that were published as one unit: they go to one consumer together, even if that is more than it has room for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from mainstem.broker.queues.delivery.consumers import Consumer, bytes_of
from mainstem.broker.queues.delivery.dispatch_rules import DispatchRule, Rooms
from mainstem.wire.messages.message import Message

if TYPE_CHECKING:
    from mainstem.broker.queues.queue import Queue, QueueLane

UnitOf: TypeAlias = Callable[[Message], tuple[int, int]]
"""The first and the last offset of the unit that a message is of."""

TURN_MESSAGES = 20
"""Where several consumers have room, each is given up to this many in its turn, and the rest of the unit."""
NO_LIMIT = 1 << 62


class UnitDispatch(DispatchRule):
    """To consumers in turn."""

    def __init__(self, unit_of: UnitOf) -> None:
        super().__init__()
        self._unit_of = unit_of

    def dispatch(self, queue: Queue, able: Sequence[Consumer]) -> bool:
        """Give out what can be; answers whether anything was."""
        rooms: Rooms = {consumer: (consumer.room, bytes_of(consumer)) for consumer in able}
        shares: dict[Consumer, list[Message]] = {}
        for lane in queue.lanes_in_turn():
            while rooms and lane.ready:
                consumer = self._next(able, rooms)
                if consumer is None:
                    break
                count, size = rooms.pop(consumer)
                taken = queue.take_from(lane, min(count, TURN_MESSAGES) if len(able) > 1 else count, size)
                if not taken:
                    break
                taken += self._rest_of_unit(queue, lane, taken[-1])
                shares.setdefault(consumer, []).extend(taken)
                count -= len(taken)
                size -= sum([len(message.value) for message in taken])
                if count > 0 and size > 0:
                    rooms[consumer] = (count, size)
        queue.delivered += sum(map(len, shares.values()))
        for consumer, share in shares.items():
            consumer.deliver(queue, share)
        return bool(shares)

    def _rest_of_unit(self, queue: Queue, lane: QueueLane, message: Message) -> list[Message]:
        last = self._unit_of(message)[1]
        if last == message.offset or not lane.ready or lane.ready[0].offset > last:
            return []
        count = 0
        for ready in lane.ready:
            if ready.offset > last:
                break
            count += 1
        return queue.take_from(lane, count, NO_LIMIT)
