"""Messages that are not for everybody: each goes to the next consumer in turn that may have it, the others stay in their places.

Plain queues give out whole portions and need none of this; here every message is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from mainstem.broker.queues.delivery.consumers import Consumer, bytes_of
from mainstem.wire.messages.message import Message

if TYPE_CHECKING:
    from mainstem.broker.queues.queue import Queue, QueueLane

Wants: TypeAlias = Callable[[Message], bool]
"""Whether a consumer wants a message: always the same answer for the same one."""
Rooms: TypeAlias = dict[Consumer, tuple[int, int]]
"""Who can have more: how many messages, and how many bytes; the last message may be larger than what is left."""

PASSED_MAX = 1_024
"""Messages of a lane that are passed over, in search of one that somebody may have."""


class DispatchRule:
    """What both rules have in common."""

    def __init__(self) -> None:
        self._turn = 0
        self.wants: dict[Consumer, Wants] = {}
        """What those want that do not want all."""

    def _may(self, consumer: Consumer, message: Message) -> bool:
        wants = self.wants.get(consumer)
        return wants is None or wants(message)

    def dispatch(self, queue: Queue, able: Sequence[Consumer]) -> bool:
        """Give out what can be; answers whether anything was."""
        self._begin(queue)
        rooms = {consumer: (consumer.room, bytes_of(consumer)) for consumer in able if bytes_of(consumer) > 0}
        shares: dict[Consumer, list[Message]] = {}
        for lane in queue.lanes_in_turn():
            is_waiting = self._dispatch_lane(queue, lane, able, rooms, shares)
            if is_waiting and queue.properties.priority_max:
                break  # What is more urgent is given out first, once it is read and reserved.
        queue.delivered += sum(map(len, shares.values()))
        for consumer, share in shares.items():
            consumer.deliver(queue, share)
        return bool(shares)

    def _dispatch_lane(
        self,
        queue: Queue,
        lane: QueueLane,
        able: Sequence[Consumer],
        rooms: Rooms,
        shares: dict[Consumer, list[Message]],
    ) -> bool:
        """Give out what can be; answers whether there is more that is not read yet, or not reserved."""
        passed: list[Message] = []
        is_reserved = True
        while rooms and lane.ready and len(passed) < PASSED_MAX:
            message = queue.take_first(lane)
            if message is None:
                is_reserved = not lane.ready
                break
            consumer = self._choose(message, able, rooms)
            if consumer is None:
                passed.append(message)
                continue
            shares.setdefault(consumer, []).append(message)
            count, size = rooms.pop(consumer)
            if count > 1 and size > len(message.value):
                rooms[consumer] = (count - 1, size - len(message.value))
        for message in passed:
            del lane.unsettled[message.offset]
        lane.take_back(passed)
        return not is_reserved or (lane.is_behind and len(passed) < PASSED_MAX)

    def _next(
        self, able: Sequence[Consumer], rooms: Rooms, may: Callable[[Consumer], bool] | None = None
    ) -> Consumer | None:
        """The next in turn that has room and may."""
        for ahead in range(1, len(able) + 1):
            consumer = able[(self._turn + ahead) % len(able)]
            if consumer in rooms and (may is None or may(consumer)):
                self._turn += ahead
                return consumer
        return None

    def _begin(self, queue: Queue) -> None:
        """A round begins."""

    def _choose(self, message: Message, able: Sequence[Consumer], rooms: Rooms) -> Consumer | None:
        """Who is given a message; None: nobody now."""
        raise NotImplementedError


class SelectiveDispatch(DispatchRule):
    """By what consumers want."""

    def _choose(self, message: Message, able: Sequence[Consumer], rooms: Rooms) -> Consumer | None:
        return self._next(able, rooms, lambda consumer: self._may(consumer, message))


class KeyedDispatch(DispatchRule):
    """By key: messages of one key are worked on by one consumer at a time, in order; other keys go on beside them."""

    def __init__(self) -> None:
        super().__init__()
        self._holders: dict[Message, Consumer] = {}
        self._locked: dict[bytes, Consumer] = {}
        self._blocked: set[bytes] = set()
        """Keys of which a message was passed over in this round."""

    def _begin(self, queue: Queue) -> None:
        held = [message for lane in queue.lanes for message in lane.unsettled.values() if message in self._holders]
        self._holders = {message: self._holders[message] for message in held}
        self._locked = {message.key: holder for message, holder in self._holders.items() if message.key is not None}
        # What failed comes back: until then its followers wait.
        resting = [message for lane in queue.lanes for message in lane.resting.values() if message.deliveries]
        self._blocked = {message.key for message in resting if message.key is not None}

    def _choose(self, message: Message, able: Sequence[Consumer], rooms: Rooms) -> Consumer | None:
        def may(consumer: Consumer) -> bool:
            return self._may(consumer, message)

        key = message.key
        if key is None:
            return self._next(able, rooms, may)
        if key in self._blocked:
            return None
        holder = self._locked.get(key) or self._next(able, rooms, may)
        if holder is None or holder not in rooms:
            self._blocked.add(key)
            return None
        self._locked[key] = self._holders[message] = holder
        return holder
