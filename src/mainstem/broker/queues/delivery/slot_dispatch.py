"""Messages by slots of their keys: each slot has a consumer, and moves to another only when nothing of it is unsettled.

So no key is ever worked on by two consumers at once, and its messages keep their order; others go on beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from mainstem.broker.queues.delivery.consumers import Consumer, bytes_of
from mainstem.broker.queues.delivery.dispatch_rules import PASSED_MAX, DispatchRule
from mainstem.broker.queues.delivery.unit_dispatch import UnitOf
from mainstem.wire.messages.message import Message

if TYPE_CHECKING:
    from mainstem.broker.queues.queue import Queue, QueueLane

SlotOf: TypeAlias = Callable[[Message], int | None]
"""The slot of a message; None: it has no key, and goes to anybody."""
OwnerOf: TypeAlias = Callable[[int], Consumer | None]
"""Whose a slot is now; None: nobody's."""


class _Round:
    """What one round of giving out knows."""

    def __init__(self, able: Sequence[Consumer]) -> None:
        self.rooms = {consumer: [consumer.room, bytes_of(consumer)] for consumer in able}
        self.units: dict[Consumer, int] = {}
        """The last offset of the unit of which each was given something last."""
        self.shares: dict[Consumer, list[Message]] = {}
        self.blocked: set[int] = set()
        """Slots of which a message was passed over."""

    def has_room(self, consumer: Consumer, message: Message) -> bool:
        """Whether it can have this too: the rest of a unit it takes in any case."""
        room = self.rooms.get(consumer)
        if room is None:
            return False
        return (room[0] > 0 and room[1] > 0) or self.units.get(consumer, -1) >= message.offset

    @property
    def is_full(self) -> bool:
        """Whether nobody has room."""
        return not any(count > 0 and size > 0 for count, size in self.rooms.values())


class SlotDispatch(DispatchRule):
    """By slots."""

    def __init__(self, slot_of: SlotOf, unit_of: UnitOf, owner_of: OwnerOf) -> None:
        super().__init__()
        self._slot_of = slot_of
        self._unit_of = unit_of
        self._owner_of = owner_of
        self._given: dict[Message, tuple[int, Consumer]] = {}
        """What was given out and may be unsettled: slot, and who has it."""

    def dispatch(self, queue: Queue, able: Sequence[Consumer]) -> bool:
        """Give out what can be; answers whether anything was."""
        self._given = {
            message: given
            for message, given in self._given.items()
            if message.lane.unsettled.get(message.offset) is message
        }
        held = dict(self._given.values())
        round_ = _Round(able)
        for lane in queue.lanes_in_turn():
            self._give_from(queue, lane, able, held, round_)
        queue.delivered += sum(map(len, round_.shares.values()))
        for consumer, share in round_.shares.items():
            consumer.deliver(queue, share)
        return bool(round_.shares)

    def _give_from(
        self, queue: Queue, lane: QueueLane, able: Sequence[Consumer], held: dict[int, Consumer], round_: _Round
    ) -> None:
        passed: list[Message] = []
        while lane.ready and len(passed) < PASSED_MAX and (not round_.is_full or self._goes_on(lane, round_)):
            message = queue.take_first(lane)
            if message is None:
                break
            slot = self._slot_of(message)
            consumer = self._choose_owner(slot, message, able, held, round_)
            if consumer is None:
                passed.append(message)
                continue
            if slot is not None:
                held[slot] = consumer
                self._given[message] = (slot, consumer)
            round_.shares.setdefault(consumer, []).append(message)
            room = round_.rooms[consumer]
            room[0] -= 1
            room[1] -= len(message.value)
            round_.units[consumer] = self._unit_of(message)[1]
        for message in passed:
            del lane.unsettled[message.offset]
        lane.take_back(passed)

    def _goes_on(self, lane: QueueLane, round_: _Round) -> bool:
        """Whether the next message is of a unit that was begun."""
        return any(last >= lane.ready[0].offset for last in round_.units.values())

    def _choose_owner(
        self,
        slot: int | None,
        message: Message,
        able: Sequence[Consumer],
        held: dict[int, Consumer],
        round_: _Round,
    ) -> Consumer | None:
        if slot is None:
            open_ = {consumer: (1, 1) for consumer in able if round_.has_room(consumer, message)}
            return self._next(able, open_) if open_ else None
        if slot in round_.blocked:
            return None
        owner = held.get(slot) or self._owner_of(slot)
        if owner is None or not round_.has_room(owner, message):
            round_.blocked.add(slot)
            return None
        return owner
